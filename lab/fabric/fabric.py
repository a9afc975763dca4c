"""`Fabric`: brings a topology up as network namespaces, runs programs in it, takes it down whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from lab.fabric import bpf, cgroups, congestion, detect, netns, plan, state
from lab.fabric.commands import Command, Tc, run_all
from lab.fabric.machine import library
from lab.fabric.queues import Buffer, QueueProgram, reshape, u32_filters
from lab.fabric.sigterm import exits_on_sigterm
from lab.fabric.topology import FabricError, Port, Topology
from lab.scheduler import Scheduler

Progress = Callable[[str], None]


def _silent(_: str) -> None:
    pass


class Fabric(AbstractContextManager["Fabric"]):
    """A running fabric.

    As a context manager it lives as long as the `with` block; also on Ctrl-C, SIGTERM and exceptions it is taken down.
    What a killed owner left behind under the same prefix is removed first. `control` starts daemons in it once it is
    built (`lab.control.plane.start_control`); None: links only. `congestion_control` of all hosts: "cubic" (the
    kernel's default where it has none), or "dctcp" (the kernel's own, else by BPF).

    Raises:
        FabricError: no root, a missing tool, a prefix in use; nothing is left half built.
    """

    def __init__(
        self,
        topology: Topology | None = None,
        prefix: str = "qc",
        control: Callable[[Fabric, Progress], None] | None = None,
        progress: Progress = _silent,
        congestion_control: str = "cubic",
        by: Scheduler = "library",
    ) -> None:
        self.topology = topology or Topology()
        self.prefix = prefix
        self.directory = state.directory_of(prefix)
        self._start_control = control
        self._progress = progress
        self._congestion_control = congestion.checked(congestion_control)
        self._by = by
        self._state: state.State | None = None
        self._buffer: bpf.SharedBuffer | None = None
        self._sigterm = ExitStack()
        self._started: list[subprocess.Popen[Any]] = []

    # -- life ---------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Fabric:
        with ExitStack() as stack:
            stack.enter_context(exits_on_sigterm())
            self.up()
            self._sigterm = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._state is None or not self._state.kept:
                self.down()
        finally:
            self._sigterm.close()

    def up(self) -> None:
        """Builds the fabric; on any failure takes away what was built."""
        detect.require_root_and_tools()
        with state.locked(self.prefix):
            self._refuse_or_clean()
            names = plan.namespaces(self.topology, self.prefix)
            probe = f"{self.prefix}-probe"
            foreign = [name for name in [*names, probe] if netns.exists(name)]
            if foreign:
                raise FabricError(
                    f"the network namespace {foreign[0]} is there already and not ours; choose another prefix"
                )
            me = os.getpid()
            self._state = state.State(self.prefix, self.topology, [*names, probe], me, state.start_of(me))
            if self._by == "kernel":
                groups = {host: cgroups.path_of(self.netns(host)) for host in self.hosts}
                self._state.cgroups = {host: str(group) for host, group in groups.items() if not group.exists()}
                if taken := groups.keys() - self._state.cgroups.keys():
                    raise FabricError(f"the cgroup {groups[min(taken)]} is there already; choose another prefix")
            self._state.save()
            try:
                self._build(probe)
                if self._start_control:
                    self._start_control(self, self._progress)
            except BaseException:
                state.take_down(self.prefix)
                self._state = None
                raise

    def _refuse_or_clean(self) -> None:
        old = state.load(self.prefix)
        if old is None:
            return
        if old.owner_lives() and not old.kept:
            raise FabricError(
                f"a fabric with prefix {self.prefix} is up and belongs to process {old.owner_pid}; "
                "end that, or choose another prefix"
            )
        self._progress(f"removing the fabric {self.prefix} that was left behind")
        state.take_down(self.prefix)

    def _build(self, probe: str) -> None:
        record = self.record
        record.shaper, notes = detect.shaper(probe)
        record.notes += notes
        self._progress(
            f"{len(self.hosts)} hosts, {len(self.topology.switches)} switches, {len(self.topology.ports)} ports"
        )
        run_all(plan.build(self.topology, self.prefix, record.shaper))
        for group in map(Path, record.cgroups.values()):
            cgroups.make(group)
        self._choose_congestion_control()
        self._load_shared_buffer()
        record.save()

    def _choose_congestion_control(self) -> None:
        record = self.record
        if self._congestion_control == "dctcp":
            record.congestion_control = "dctcp"
            if not congestion.has("dctcp"):
                record.congestion_control = record.registered = congestion.own_name(self.prefix)
                record.notes.append("this kernel has no DCTCP: hosts use the fabric's own, by BPF")
                record.save()
                congestion.register(record.registered, self.directory)
            run_all(plan.congestion_control(self.topology, self.prefix, record.congestion_control))
            return
        try:
            run_all(plan.congestion_control(self.topology, self.prefix, "cubic"))
            record.congestion_control = "cubic"
        except FabricError:
            default = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
            record.congestion_control = default
            record.notes.append(f"this kernel has no cubic: hosts use its default congestion control, {default}")

    def _load_shared_buffer(self) -> None:
        record, directory = self.record, self.directory / "bpf"
        try:
            state.mount_bpf(directory)
            bpf.compile_and_load(directory, self.directory)
        except FabricError as refused:
            record.notes.append(f"no shared buffer ({refused}): each queue has an eighth of the port's buffer instead")
            self._static_split()
            return
        self._buffer = bpf.SharedBuffer(directory)
        for port in self.topology.switch_ports:
            self._buffer.configure(port.ifindex, QueueProgram(), self.default_buffer, record.shaper)
        run_all(plan.attach_shared_buffer(self.topology, self.prefix, directory))
        record.shared_buffer = True

    def _static_split(self) -> None:
        run_all(plan.static_split(self.topology, self.prefix, self.record.shaper))

    def keep(self) -> None:
        """Leaves the fabric up after the `with` block; `qclimb lab down` removes it."""
        self.record.kept = True
        self.record.save()

    def down(self) -> None:
        """Removes everything; again is harmless."""
        previous = None
        if threading.current_thread() is threading.main_thread():
            previous = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave half of it
        try:
            with state.locked(self.prefix):
                state.take_down(self.prefix)
            self._end_started()
            self._state = self._buffer = None
        finally:
            if previous is not None:
                signal.signal(signal.SIGINT, previous)

    def _end_started(self) -> None:
        """Ends what was on its way into a namespace while those inside were ended."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
        self._started.clear()

    @classmethod
    def attach(cls, prefix: str = "qc") -> Fabric:
        """A fabric that another process brought up.

        Raises:
            FabricError: none is up under that prefix.
        """
        record = state.load(prefix)
        if record is None:
            raise FabricError(f"no fabric with prefix {prefix} is up; `qclimb lab up` brings one up")
        found = cls(record.topology, prefix)
        found._state = record
        if record.shared_buffer:
            found._buffer = bpf.SharedBuffer(found.directory / "bpf")
        return found

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def record(self) -> state.State:
        """The state that is kept on disk."""
        if self._state is None:
            raise FabricError(f"the fabric {self.prefix} is not up")
        return self._state

    @property
    def hosts(self) -> dict[str, str]:
        """Data address of each host by name."""
        return self.topology.hosts

    @property
    def default_buffer(self) -> Buffer:
        """A switch port's buffer before any row says otherwise."""
        return Buffer(self.topology.buffer_bytes, (self.topology.dynamic_th,) * 8)

    @property
    def notes(self) -> list[str]:
        """What this machine lacks and what is used instead, a sentence each."""
        return list(self.record.notes)

    @property
    def shared_buffer(self) -> bpf.SharedBuffer | None:
        """Counters of every switch port; None where BPF can't be loaded."""
        return self._buffer

    def netns(self, node: str) -> str:
        """Name of a node's network namespace.

        Raises:
            FabricError: no such node.
        """
        if node not in self.topology.nodes:
            raise FabricError(f"there is no node {node!r}; expected one of {', '.join(self.topology.nodes)}")
        return plan.netns_of(self.prefix, node)

    # -- what runs in it ----------------------------------------------------------------------------------------------

    def exec_argv(self, node: str, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` in a node; the process keeps its number (ip netns exec becomes it)."""
        if node in self.record.cgroups:  # which `ip netns exec` would hide, as all below /sys
            return ["nsenter", f"--net={netns.RUN_NETNS / self.netns(node)}", *argv]
        return ["ip", "netns", "exec", self.netns(node), *argv]

    def scheduled(self, host: str, argv: Sequence[str]) -> list[str]:
        """The same for a program whose flows are scheduled: under libqclimb.so, or in the host's cgroup without it."""
        group = self.record.cgroups.get(host)
        if group:
            return self.exec_argv(host, cgroups.joined(argv, Path(group)))
        # Set behind `ip`, so that only the program itself runs under it.
        return self.exec_argv(host, ["env", f"LD_PRELOAD={self.host_env(host, shim=True)['LD_PRELOAD']}", *argv])

    def run_directory(self, host: str) -> Path:
        """A host's QCLIMB_RUN: policy, model, records socket."""
        self.netns(host)
        directory = self.directory / "hosts" / host
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def host_env(self, host: str, shim: bool = False, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Environment for a program on a host; `shim` preloads libqclimb.so."""
        env = {**os.environ, "QCLIMB_RUN": str(self.run_directory(host)), **(extra or {})}
        if shim:
            env["LD_PRELOAD"] = " ".join(filter(None, [env.get("LD_PRELOAD"), str(library())]))
        return env

    def popen(
        self, node: str, argv: Sequence[str], *, is_scheduled: bool = False, **options: Any
    ) -> subprocess.Popen[Any]:
        """Starts a program in a node, in a session of its own (Ctrl-C reaches only us); ended at the latest with the
        fabric. Options are subprocess.Popen's; `env` defaults to `host_env(node)` on hosts."""
        if self.topology.nodes.get(node) and self.topology.nodes[node].role == "host":
            options.setdefault("env", self.host_env(node))
        options.setdefault("start_new_session", True)
        words = self.scheduled(node, argv) if is_scheduled else self.exec_argv(node, argv)
        self._started.append(subprocess.Popen(words, **options))
        return self._started[-1]

    def run(self, node: str, argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
        """subprocess.run in a node."""
        return subprocess.run(self.exec_argv(node, argv), **options)

    def entered(self, node: str) -> AbstractContextManager[None]:
        """The calling thread is in the node's namespace meanwhile: sockets made there stay there."""
        return netns.entered(self.netns(node))

    # -- queues without a control plane -------------------------------------------------------------------------------

    def program(self, port: Port, program: QueueProgram, buffer: Buffer | None = None) -> None:
        """Programs a switch port's queues directly, as vasic does from rows; for links-only use."""
        where = plan.netns_of(self.prefix, port.node)
        commands: list[Command] = [
            Tc(where, line) for line in reshape(port.name, port.rate_bps, program, self.record.shaper)
        ]
        if self._buffer is not None:
            self._buffer.configure(port.ifindex, program, buffer or self.default_buffer, self.record.shaper)
        else:
            with suppress(FabricError):
                run_all([Tc(where, f"filter del dev {port.name} parent 1: pref 1")])
            commands += [Tc(where, line) for line in u32_filters(port.name, program, self.record.shaper, 1)]
        run_all(commands)
