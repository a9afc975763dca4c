"""What flow sizes and thresholds foretell of each priority: its share of all bytes. Pure.

A flow's bytes between two thresholds have one priority, so a priority's share is that of all bytes which lie there in
their flow: G at its end less G at its beginning (`sizes`). QCLIMB counts what is left down to a lower bound instead of
what was sent up to it, which are the same bytes; those of the slack have the first priority in addition.
"""

from collections.abc import Sequence

from qclimb.histogram import SizeHistogram
from qclimb.policy import Mode

from .sizes import SizeDistribution


def foretold_shares(
    sizes: SizeHistogram, threshold_bytes: Sequence[int], mode: Mode, slack_bytes: int
) -> tuple[float, ...] | None:
    """Of each priority, in [0, 1]; they sum to 1, or to more where slack is given. None: no flows are recorded."""
    if not sizes.counts:
        return None
    _, before, _ = SizeDistribution.from_histogram(sizes).at([0, *threshold_bytes, slack_bytes])
    *ends, slack = (float(share) for share in before)
    shares = [end - begin for begin, end in zip(ends, [*ends[1:], 1.0], strict=True)]
    shares[0] += slack if mode is Mode.QCLIMB else 0.0
    return tuple(min(max(share, 0.0), 1.0) for share in shares)
