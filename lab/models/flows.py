"""The flows of one traffic, as bounds are measured on them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from orchestrator.models.trees import Float32s, Floats


@dataclass(frozen=True)
class Flows:
    """What a ladder stands on: features [n, 12], sizes and footprints [n] in bytes, times, hosts; what was announced,
    as records say it [n]; services [n], numbered."""

    name: str
    features: Float32s
    size_bytes: Floats
    footprint_bytes: npt.NDArray[np.uint64]
    start_ns: npt.NDArray[np.uint64]
    hosts: list[str]
    first_write_bytes: npt.NDArray[np.uint64]
    announced_bytes: npt.NDArray[np.uint64]
    announced_by: npt.NDArray[np.uint64]
    flags: npt.NDArray[np.uint64]
    services: npt.NDArray[np.int64]
