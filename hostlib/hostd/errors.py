"""What can go wrong in hostd.

QclimbError
└── HostdError            one sentence for the operator
    ├── PlaceError        the run directory or a file in it can't be used
    ├── FleetError        the orchestrator is away, refuses, or answers what can't be used
    ├── RouteError        routes can't be read or changed (routes.py)
    ├── ToolError         a command refused (tools.py)
    ├── BpfError          bpf(2) or libbpf refused (bpf.py)
    ├── ForecastError     a model that the kernel can't hold (forecast.py)
    ├── DeviceError       a device or a network namespace can't be had (interfaces.py)
    └── TaggerError       the tagger or the kernel mode can't be loaded (tagger.py)
"""

from qclimb.errors import QclimbError


class HostdError(QclimbError):
    """One sentence that names place, value and expectation."""


class PlaceError(HostdError):
    """The run directory can't be used."""


class FleetError(HostdError):
    """The orchestrator can't be reached, refuses, or its answer can't be used."""
