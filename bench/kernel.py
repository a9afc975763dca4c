"""Servers in the kernel mode beside the same servers bare: nothing loaded, for the tracepoint hears of every socket.

Two network namespaces and an unshaped link; the server in an opted-in cgroup and on the last processor, the load on
the first. The same server process is asked bare, in kernel mode with the tagger at its device, and in kernel mode by
its sockets' own DSCP (`--tagger-dev none`), in turns; each turn opens its connections anew. Both congestion controls,
where the kernel has them; bbr over a link of 5 Gb/s, too, for without a rate it takes what the processors do for one.
Then what the programs take by the kernel's own count (bpf_stats, its two clocks included): ns a packet out and in, ns
a write, of which one begins a flow where each answer is one write, ns an event of a socket, which by sockets each
packet is; and all of them together a request. `python -m bench kernel --loads redis,nginx-100k-bbr` chooses.
Needs root, cgroup v2 and clang; without, the benchmark says so and is skipped.
"""

import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
from qclimb.policy import Mode

from hostlib.hostd import kernel as kernel_mode
from hostlib.hostd import tagger
from hostlib.hostd.daemon import KERNEL_GATHER_S
from hostlib.hostd.place import Place
from hostlib.hostd.scope import NO_DEVICE, Scope
from lab.fabric.cgroups import cgroup, joined
from lab.fabric.netns import entered

from .beside import (
    build,
    built,
    compared,
    cpu_ns_of,
    do,
    in_turns,
    is_skipped,
    last_cpu,
    policy,
    row_per_s,
    run_in,
    two_hosts,
)
from .kernel_loads import NET, PORT, SERVER, Load, every_load
from .shim_link import bound, controlled_by

REPEATS = 10
BPF_STATS = Path("/proc/sys/kernel/bpf_stats_enabled")
BY_DEVICE, BY_SOCKETS = "device", "sockets"
TAGGER_DEVICES = {BY_DEVICE: ("e0",), BY_SOCKETS: (NO_DEVICE,)}
"""What carries each packet's DSCP, and hostd's option for it."""
GOAL = ">= 0.98"
LINK = "@5g"
"""Behind a congestion control: over a link of that rate."""
CONTROLS = ("cubic", "bbr", f"bbr{LINK}")


def loads() -> list[str]:
    """Those that may be chosen: each load under each congestion control."""
    return [f"{name}-{control}" for control in CONTROLS for name in every_load()]


class Switch:
    """Turns the kernel mode on and off on the server's host."""

    def __init__(self, netns: str, run_dir: Path, cgroup: Path) -> None:
        self._netns, self._place, self._cgroup = netns, Place(run_dir), cgroup
        self._bpf = run_dir / "bpf"
        self._taken: threading.Thread | None = None
        self._is_off = threading.Event()

    def on(self, by: str) -> None:
        """As `qclimb-hostd --kernel` does, loaded anew. `by`: of TAGGER_DEVICES."""
        self.off()
        wanted = policy(Mode.PIAS)
        with entered(self._netns):
            marks = tagger.Tagger(self._place, TAGGER_DEVICES[by], cgroups=(self._cgroup,))
            marks.follow(wanted)
            finds = kernel_mode.KernelMode(self._place, Scope((self._cgroup,)), marks)
            finds.follow(wanted)
        assert not finds.problem, finds.problem
        self._is_off.clear()
        self._taken = threading.Thread(target=self._take, args=(finds,))
        self._taken.start()

    def _take(self, finds: kernel_mode.KernelMode) -> None:
        """Reads the records as often as hostd does."""
        while not self._is_off.wait(KERNEL_GATHER_S):
            finds.read()
        finds.close()

    def off(self) -> None:
        """Nothing of it stays."""
        self._is_off.set()
        if self._taken is not None:
            self._taken.join()
            self._taken = None
        with entered(self._netns):
            kernel_mode.remove(self._bpf)
            tagger.remove(self._place)

    def costs(self) -> dict[str, tuple[int, int]]:
        """Of each program, runs and ns since it was loaded, by the kernel's count."""
        found = {}
        for pin in (*self._bpf.glob("kernel-*/*"), *self._bpf.glob("programs-*/*")):
            shown = json.loads(
                subprocess.check_output(["bpftool", "-j", "prog", "show", "pinned", str(pin)], text=True)
            )
            found[pin.name] = (shown.get("run_cnt", 0), shown.get("run_time_ns", 0))
        return found


@contextmanager
def serving(names: tuple[str, str], place: Path, load: Load, group: Path) -> Iterator[int]:
    """The server in the cgroup, once it answers: its process."""
    argv = joined(["taskset", "-c", last_cpu(), *load.argv(place)], group)
    program = subprocess.Popen(
        ["nsenter", f"--net=/run/netns/{names[0]}", *argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        ready = run_in(names[1], "sh", "-c", f"exec 3<>/dev/tcp/{SERVER}/{PORT}")
        ready[ready.index("sh")] = "bash"
        while subprocess.run(ready, capture_output=True).returncode:
            time.sleep(0.02)
        yield program.pid
    finally:
        program.terminate()
        program.wait()


def run(chosen: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Rows of the benchmark, each as soon as it is measured. `chosen`: of `loads()`; a load without its congestion
    control stands for all; none: every one."""
    if is_skipped("kernel", "clang", "bpftool", "nginx", "wrk", "iperf3", "memcached", "redis-server"):
        return
    build("tagger")
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qclimb-bench-")))
        place.chmod(0o755)
        built(place, "ask.c")
        run_dir = place / "run"
        (run_dir / "bpf").mkdir(parents=True)
        do("mount", "-t", "bpf", "-o", "mode=0755", "qclimb", str(run_dir / "bpf"))
        stack.callback(do, "umount", "-l", str(run_dir / "bpf"))
        group = stack.enter_context(cgroup(f"qcbench{os.getpid()}"))
        names = stack.enter_context(two_hosts(NET))
        switch = Switch(names[0], run_dir, group)
        stack.callback(switch.off)
        for control in CONTROLS:
            wanted = [
                load for name, load in every_load().items() if not chosen or {name, f"{name}-{control}"} & set(chosen)
            ]
            if wanted and control.endswith(LINK):
                bound(names[0])
            if wanted and not controlled_by(names, control.removesuffix(LINK)):
                click.echo(f"[bench] kernel: {control} skipped: the kernel hasn't it", err=True)
                continue
            for load in wanted:
                with serving(names, place, load, group) as pid:
                    rows = beside(switch, load, names[1], place, pid)
                switch.off()
                yield from ({"load": load.name, "control": control, **row} for row in rows)


def beside(switch: Switch, load: Load, client: str, place: Path, pid: int) -> list[dict[str, Any]]:
    """One load in kernel mode beside the same bare, and what the programs took meanwhile; a row for each of
    TAGGER_DEVICES."""
    cpu: dict[str | None, list[float]] = {None: [], **{by: [] for by in TAGGER_DEVICES}}

    def per_s(by: str | None) -> float:
        switch.on(by) if by else switch.off()
        before_ns = cpu_ns_of(pid)
        seen = load.ask(client, place)
        cpu[by].append((cpu_ns_of(pid) - before_ns) / seen.requests)
        return seen.per_s

    load.ask(client, place)
    values = in_turns(tuple(TAGGER_DEVICES), REPEATS, per_s)
    rows = [row_per_s(values, cpu, by, GOAL) | programs_time(switch, by, load, client, place) for by in TAGGER_DEVICES]
    rows[-1] |= {"to device": by_sockets_to_device(values), "cpu to device": by_sockets_to_device(cpu)}
    return rows


def by_sockets_to_device(values: Mapping[Any, list[float]]) -> str:
    """Of the same turns: the median ratio and its interval."""
    found = compared({None: values[BY_DEVICE], BY_SOCKETS: values[BY_SOCKETS]}, BY_SOCKETS)
    return f"{found['ratio']:.3f} ({found['95 %']})"


def programs_time(switch: Switch, by: str, load: Load, client: str, place: Path) -> dict[str, Any]:
    """What the programs take of one more asking."""
    switch.on(by)
    BPF_STATS.write_text("1\n")
    try:
        requests = load.ask(client, place).requests
    finally:
        BPF_STATS.write_text("0\n")
    costs = switch.costs()
    each = {name: round(ns / count) for name, (count, ns) in costs.items() if count}
    return {
        "ns a packet": each.get("egress"),
        "ns a packet in": each.get("ingress"),
        "ns a write": next((each[name] for name in each if name.startswith("by_")), None),
        "ns an event of a socket": next((each[name] for name in each if name.startswith("scope")), None),
        "events a request": sum(count for name, (count, _) in costs.items() if name.startswith("scope")) / requests,
        "programs' us a request": sum(ns for _, ns in costs.values()) / requests / 1000,
    }
