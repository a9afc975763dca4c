"""How large a forest is unless it is told: here alone.

The paper's depth and, since it names no number of trees, 100 of them.
"""

TREES, DEPTH = 100, 10
