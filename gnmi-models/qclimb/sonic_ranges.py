"""The numbers that SONiC takes in the fields qclimb writes, once: by its YANG models and by orchagent's integer types.

A value outside the models' range stands in the way of every later `config apply-patch`, also of the one that removes
it; a value outside orchagent's type is an exception there and holds up its table (`orchagent.Blocking`). Sources:
sonic-yang-models and orchagent (`qosorch.cpp`, `bufferorch.cpp`) of August 2026.
"""

from dataclasses import dataclass

INT32_MAX = 2**31 - 1
_INT8, _UINT8, _INT32, _UINT64 = (-128, 127), (0, 255), (-INT32_MAX - 1, INT32_MAX), (0, 2**64 - 1)


@dataclass(frozen=True)
class Range:
    """Inclusive ranges of one number: of the YANG leaf, and of the type that orchagent reads it into."""

    yang: tuple[int, int]
    orchagent: tuple[int, int]

    @property
    def lowest(self) -> int:
        """What both take at least."""
        return max(self.yang[0], self.orchagent[0])

    @property
    def highest(self) -> int:
        """What both take at most."""
        return min(self.yang[1], self.orchagent[1])


THRESHOLD = Range(_UINT64, _INT32)
"""of a WRED_PROFILE, bytes: `stoi`"""
DYNAMIC_TH = Range((-8, 7), _INT8)
"""`stol`, kept in eight bits"""
RATE = Range(_UINT64, _UINT64)
"""of a SCHEDULER, bytes/s: `stoull`"""
DSCP, TRAFFIC_CLASS, QUEUE = Range((0, 63), _UINT8), Range((0, 15), _UINT8), Range((0, 9), _UINT8)

FIELDS = {
    **{
        ("WRED_PROFILE", f"{colour}_{end}_threshold"): THRESHOLD
        for colour in ("green", "yellow", "red")
        for end in ("min", "max")
    },
    **{
        ("WRED_PROFILE", f"{colour}_drop_probability"): Range((0, 100), _INT32) for colour in ("green", "yellow", "red")
    },
    ("BUFFER_PROFILE", "dynamic_th"): DYNAMIC_TH,
    ("SCHEDULER", "cir"): RATE,
    ("SCHEDULER", "pir"): RATE,
}
"""(table, field) -> range of its value"""
MAPS = {"DSCP_TO_TC_MAP": (DSCP, TRAFFIC_CLASS), "TC_TO_QUEUE_MAP": (TRAFFIC_CLASS, QUEUE)}
"""table -> ranges of a field's name and of its value"""
