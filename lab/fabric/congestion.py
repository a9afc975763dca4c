"""The hosts' congestion control: one of the kernel's, or DCTCP by BPF where the kernel was built without it.

Hosts use it by their routes, which also negotiates ECN for one that needs it (the kernel's RTAX_FEATURES). What BPF
registers is seen in every namespace of the machine, so its name is the fabric's own, and goes with the fabric.
"""

from __future__ import annotations

import os
import subprocess
import zlib
from pathlib import Path
from typing import Literal, get_args

from lab.fabric.topology import FabricError

Congestion = Literal["cubic", "dctcp"]

SOURCE = Path(__file__).with_name("dctcp.bpf.c")
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def checked(name: str) -> Congestion:
    """Raises: FabricError: none that the fabric can bring."""
    for known in get_args(Congestion):
        if name == known:
            return name  # type: ignore[return-value]
    raise FabricError(f"congestion control is {name!r}, expected one of {', '.join(get_args(Congestion))}")


def has(name: str) -> bool:
    """Whether the running kernel offers it."""
    return name in AVAILABLE.read_text().split()


def own_name(prefix: str) -> str:
    """Of the DCTCP that the fabric of a prefix registers; a C identifier of at most 15 bytes, as the kernel's are."""
    return f"dctcp_{zlib.crc32(prefix.encode()):08x}"


def register(name: str, build: Path) -> None:
    """Compiles dctcp.bpf.c into `build` and registers it as `name`.

    Raises:
        FabricError: a tool is missing, or the kernel takes no congestion control by BPF; says why.
    """
    compiled = build / "dctcp.o"
    include = f"-I/usr/include/{os.uname().machine}-linux-gnu"
    options = ["-O2", "-g", "-ffreestanding", "-target", "bpf", include, f"-DNAME={name}", "-c", str(SOURCE)]
    for argv in (["clang", *options, "-o", str(compiled)], ["bpftool", "struct_ops", "register", str(compiled)]):
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
        except FileNotFoundError:
            raise FabricError(f"no DCTCP: this kernel has none, and to bring it `{argv[0]}` is missing") from None
        if done.returncode or (argv[0] == "bpftool" and not has(name)):
            reason = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()[-1]
            raise FabricError(f"no DCTCP: this kernel has none, and `{argv[0]}` could not bring it: {reason}")


def unregister(name: str) -> None:
    """No new connection gets it; those that have it keep it to their end. Again is harmless."""
    subprocess.run(["bpftool", "struct_ops", "unregister", "name", name], capture_output=True, timeout=60, check=False)
