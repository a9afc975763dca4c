"""Says what qclimb finds on the kernel that it runs on; as root, with tests/shim and tests/tagger on the path. The rows
of docs/results/kernels.md. `python tests/guest/features.py` prints it as JSON."""

import json
import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from hosts import hosts
from scoped import cgroup
from stand import policy

from hostlib.hostd import bpf
from hostlib.hostd.kernel import KernelMode
from hostlib.hostd.place import Place
from hostlib.hostd.scope import Scope
from hostlib.hostd.tagger import Tagger, remove
from lab.fabric import detect
from lab.fabric.netns import entered


def qdisc(kind: str) -> bool:
    """Whether the kernel takes it at a device."""
    argv = ["ip", "netns", "exec", "qcfeat", "tc", "qdisc", "replace", "dev", "lo", "root", *kind.split()]
    return not subprocess.run(argv, capture_output=True).returncode


def found() -> dict[str, object]:
    """By name; makes a namespace, two hosts and a cgroup, and removes them."""
    controls = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    told: dict[str, object] = {"kernel": os.uname().release, "btf": Path("/sys/kernel/btf/vmlinux").exists()}
    told |= {"bpf_loop": bpf.has_loop(), "dctcp": "dctcp" in controls, "bbr": "bbr" in controls}
    subprocess.run(["ip", "netns", "add", "qcfeat"], check=True)
    try:
        for kind in ("prio bands 8", "ets bands 8 strict 8", "netem delay 1ms", "htb", "fq"):
            told[kind.split()[0]] = qdisc(kind)
    finally:
        subprocess.run(["ip", "netns", "del", "qcfeat"], check=True)
    told["fabric"] = detect.shaper("qcfeat")[0]
    with tempfile.TemporaryDirectory() as name, hosts(Path(name)) as (host, _), cgroup() as group:
        place = Place(host.run_dir)
        tagger = Tagger(place, ("e0",), cgroups=(group,))
        kernel = KernelMode(place, Scope((group,)), tagger)
        with entered(host.netns):
            tagger.follow(policy())
            kernel.follow(policy())
            told |= {"tagger": tagger.status, "kernel_mode": kernel.status.replace(str(group), "CGROUP")}
            kernel.close()
            with suppress(OSError):
                remove(place)
    return told


if __name__ == "__main__":
    print(json.dumps(found()))
