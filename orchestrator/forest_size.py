"""How large a forest is unless it is told: here alone.

The smallest of bench/forest_sizes.py's that covers no less and is no less tight than 100 trees x depth 10, on each of
the shipped recordings, three seeds, and that has room for the guard of never-seen flows (docs/results/bounds.md). The
paper names the depth and no number of trees. A host walks a tenth of the steps of 100 trees.
"""

TREES, DEPTH = 10, 10
