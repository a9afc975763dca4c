"""How large a forest is unless it is told: here alone.

The smallest of docs/results/bounds.md's table that covers no less and is no less tight than 100 trees x depth 10, on
each of the shipped recordings, three seeds, and that has room for the guard of never-seen flows. The paper names the
depth and no number of trees. A host walks a tenth of the steps of 100 trees.

That holds of calibrated bounds. Where too few flows are held back to calibrate, nothing widens what a small forest
missed, and 10 trees cover visibly less than 100 (the same page): there it is 100.
"""

TREES, DEPTH = 10, 10
UNCALIBRATED_TREES = 100


def trees_for(held_back: int, needed: int) -> int:
    """Trees of a forest for whose calibration so many flows are held back and so many are needed."""
    return TREES if held_back >= needed else UNCALIBRATED_TREES
