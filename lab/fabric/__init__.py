"""The lab's fabric: leaves, spines and hosts as network namespaces with strict-priority queues and real TCP.

    from lab.fabric import Fabric, Topology

    with Fabric(Topology(), prefix="qc") as fabric:          # links only
        fabric.hosts                                         # {"h1": "198.19.1.1", ...}
        server = fabric.popen("h5", ["nginx", "-g", "daemon off;"], env=fabric.host_env("h5", shim=True))
        done = fabric.run("h1", ["curl", "-s", f"http://{fabric.hosts['h5']}/"], env=fabric.host_env("h1", shim=True))
        fabric.exec_argv("h1", ["ss", "-ti"])                # the argv, to start it your own way
        with fabric.entered("h1"):                           # this thread; sockets made here stay in h1
            socket.create_connection(...)
        fabric.shared_buffer.state(port.ifindex).queue[7].dropped_packets
        fabric.notes                                         # what this machine lacks, what is used instead
        fabric.keep()                                        # leave it up after the block

    fabric = Fabric.attach("qc")                             # one that another process brought up

`host_env(host, shim=False)` sets QCLIMB_RUN to the host's own directory and, with `shim`, LD_PRELOAD. In a fabric that
is made with `by="kernel"` the hosts' daemons run the kernel mode instead; `popen(..., is_scheduled=True)` fits both.
Programs started by `popen` are ended with the fabric at the latest. With `control=start_control` (from
lab.control.plane) the daemons run in it, `fabric.record.control` holds REST address, token file and CA file, and
`lab.control.rest.client(fabric)` is an httpx client that reaches the orchestrator from anywhere.
"""

from typing import TYPE_CHECKING, Any

from lab.fabric.queues import Buffer, QueueProgram, Service
from lab.fabric.topology import FabricError, Topology

if TYPE_CHECKING:
    from lab.fabric.fabric import Fabric

__all__ = ["Buffer", "Fabric", "FabricError", "QueueProgram", "Service", "Topology"]


def __getattr__(name: str) -> Any:
    """Loads what brings a fabric up only when it is asked for: a virtual ASIC is started on every switch."""
    if name != "Fabric":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lab.fabric.fabric import Fabric

    return Fabric
