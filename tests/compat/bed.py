"""Where one run of a program lies: a folder, free ports, an environment with or without the library, an end for all.

Its invariant: when a bed is left, no process that it started is left, and a command that outlives its time has told
where its threads stood.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from qclimb.errors import QclimbError
from qclimb.hostfile import decode_records, encode_policy
from qclimb.lengthfile import is_proposal
from qclimb.policy import Mode, Policy
from qclimb.record import FOR_MANY, MANY_FLOWS

CLONE_NEWNET = 0x40000000
THRESHOLDS = (1_000, 4_000, 16_000, 64_000, 256_000)
"""Bytes: low, so that nearly every answer of a program is split, and a megabyte five times."""
READY_S = 60
END_S = 15


class CompatError(Exception):
    """A program could not be run as its file here says; the message is one sentence."""


class Hung(CompatError):
    """A command outlived its time; `stacks` tells where each thread of it and its children stood."""

    def __init__(self, message: str, stacks: str) -> None:
        super().__init__(message)
        self.stacks = stacks


def policy(mode: Mode, optax: bool = False) -> Policy:
    """The low thresholds under which every program runs."""
    return Policy(
        generation=1,
        mode=mode,
        threshold_bytes=THRESHOLDS,
        dscp=(47, 43, 39, 35, 31, 27),
        slack_bytes=2_000,
        promote_wait_us=100_000,
        optax=optax,
    )


def own_network() -> bool:
    """Moves this process into a network namespace whose only link is a loopback of MTU 1500; False: not allowed."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        return False
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        return False
    subprocess.run(["ip", "link", "set", "lo", "up", "mtu", "1500"], check=True)
    return True


def shape_loopback(rate: str | None) -> None:
    """Gives the loopback of `own_network` a rate as tc writes it (`500mbit`), so that queues stand; None: unshaped.

    Raises:
        CompatError: tc refuses.
    """
    subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], capture_output=True, check=False)
    if rate is None:
        return
    made = subprocess.run(
        ["tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", rate, "burst", "256kb", "limit", "4mb"],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise CompatError(
            f"tc refuses a rate of {rate} on lo: {made.stderr.strip()}; expected one like 500mbit, or none"
        )


@dataclass(frozen=True)
class Seen:
    """What the library told of the flows of a run, by its records."""

    flows: int = 0
    demotions: int = 0
    promotions: int = 0
    bytes: int = 0
    dropped: int = 0


class Records:
    """The socket of a run directory, read by its own thread; decoded at the end, to leave the CPU to the program."""

    KEPT_BYTES = 128 << 20

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        path.chmod(0o622)
        self._socket.settimeout(0.2)
        self._datagrams: list[bytes] = []
        self._kept_bytes = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._is_over.is_set():
            with contextlib.suppress(TimeoutError):
                datagram = self._socket.recv(1 << 16)
                if self._kept_bytes < self.KEPT_BYTES:
                    self._datagrams.append(datagram)
                    self._kept_bytes += len(datagram)

    def end(self) -> Seen:
        """Closes the socket and sums up.

        Raises:
            CompatError: a shim sent what is no batch of records.
        """
        self._is_over.set()
        self._thread.join()
        self._socket.close()
        flows = demotions = promotions = size = dropped = 0
        for datagram in self._datagrams:
            if is_proposal(datagram):
                continue
            try:
                batch = decode_records(datagram)
            except QclimbError as error:
                raise CompatError(f"a batch of records can't be read: {error}") from error
            dropped += batch.dropped
            for record in batch.records:
                many = MANY_FLOWS if record.flags & FOR_MANY else 1
                flows += many
                demotions += record.demotions
                promotions += record.promotions
                size += many * record.size_bytes
        return Seen(flows, demotions, promotions, size, dropped)


class Bed:
    """One run of one program: `mode` None is bare, without the library; `optax`: receivers stand in line.

    hangs   stacks of commands that hung and did not end the run
    """

    def __init__(self, folder: Path, mode: Mode | None, library: Path, optax: bool = False) -> None:
        self.folder = folder
        self.mode = mode
        keep = ("PATH", "HOME", "LANG", "JAVA_HOME")
        self.environment = {name: os.environ[name] for name in keep if name in os.environ}
        self.hangs: list[str] = []
        self._stack = ExitStack()
        self._records: Records | None = None
        folder.mkdir(mode=0o755, parents=True)
        if mode is not None:
            run_dir = folder / "qclimb"
            run_dir.mkdir(mode=0o755)
            (run_dir / "policy").write_bytes(encode_policy(policy(mode, optax)))
            self._records = Records(run_dir / "records")
            self.environment |= {"LD_PRELOAD": str(library), "QCLIMB_RUN": str(run_dir)}
            if optax:
                self.environment["QCLIMB_OPTAX_LOOPBACK"] = "on"

    def end(self) -> Seen:
        """Ends what still runs; what the records said."""
        self._stack.close()
        return self._records.end() if self._records else Seen()

    def port(self) -> int:
        """A TCP port of 127.0.0.1 that nobody has at this moment."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
            return port

    def serve(
        self,
        *command: str | Path,
        port: int,
        user: str | None = None,
        environment: Mapping[str, str] | None = None,
        stdout: int | IO[Any] | None = None,
        stdin: int = subprocess.DEVNULL,
        stop: signal.Signals = signal.SIGTERM,
    ) -> subprocess.Popen[bytes]:
        """Starts a server that ends with the bed; returns once its port listens. A `.log` file has what it says.

        Raises:
            CompatError: it ended or does not listen after READY_S.
        """
        name = Path(command[0]).name
        log = self.folder / f"{name}-{port}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [str(word) for word in command],
                env={**self.environment, **(environment or {})},
                cwd=self.folder,
                stdin=stdin,
                stdout=file if stdout is None else stdout,
                stderr=file,
                user=user if os.geteuid() == 0 else None,
                start_new_session=True,
            )
        self._stack.callback(_end, process, stop)
        end = time.monotonic() + READY_S
        while not _listens(port):
            if process.poll() is not None:
                raise CompatError(f"{name} ended with status {process.returncode}: {_tail(log)}")
            if time.monotonic() > end:
                raise Hung(
                    f"{name} does not listen on port {port} after {READY_S} s: {_tail(log)}", stacks(process.pid)
                )
            time.sleep(0.02)
        return process

    def run(
        self,
        *command: str | Path,
        timeout_s: float = 120,
        stdin: bytes = b"",
        user: str | None = None,
        environment: Mapping[str, str] | None = None,
        statuses: tuple[int, ...] | None = (0,),
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs a command to its end; `statuses` None: any exit status will do.

        Raises:
            Hung: it outlived timeout_s.
            CompatError: another exit status.
        """
        words = [str(word) for word in command]
        name = Path(words[0]).name
        process = subprocess.Popen(
            words,
            env={**self.environment, **(environment or {})},
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            user=user if os.geteuid() == 0 else None,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(stdin, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            where = stacks(process.pid)
            _end(process, signal.SIGKILL)
            raise Hung(f"{name} hung: not at its end after {timeout_s:g} s", where) from None
        except BaseException:
            _end(process, signal.SIGKILL)
            raise
        if statuses is not None and process.returncode not in statuses:
            said = (err or out)[-300:].decode(errors="replace")
            raise CompatError(f"{name} ended with status {process.returncode}: {' '.join(said.split())}")
        return subprocess.CompletedProcess(words, process.returncode, out, err)


def stacks(pid: int) -> str:
    """Where each thread of a process and its descendants stands: kernel's word, and gdb's where there is one."""
    lines = []
    for found in [pid, *descendants(pid)]:
        for task in sorted(Path(f"/proc/{found}/task").glob("*")):
            with contextlib.suppress(OSError):
                comm, wchan = (task / "comm").read_text().strip(), (task / "wchan").read_text()
                lines.append(f"{found}/{task.name} {comm} in {wchan or '?'} (syscall {_read(task / 'syscall')})")
                lines += [f"    {line}" for line in _read(task / "stack").splitlines()[:6]]
        if shutil.which("gdb"):
            with contextlib.suppress(subprocess.TimeoutExpired):
                told = subprocess.run(
                    ["gdb", "-nx", "-batch", "-p", str(found), "-ex", "thread apply all bt 12"],
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
                lines += [f"    {line}" for line in told.stdout.splitlines() if line.startswith(("#", "Thread"))][:80]
    return "\n".join(lines)


def descendants(pid: int) -> list[int]:
    """Children, their children and so on, also those with a session of their own (PostgreSQL's)."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(stat.parent.name))
    found, at = [pid], 0
    while at < len(found):
        found += parents.get(found[at], [])
        at += 1
    return found[1:]


def _end(process: "subprocess.Popen[bytes]", with_signal: signal.Signals) -> None:
    children = {pid: _began(pid) for pid in descendants(process.pid)} if process.poll() is None else {}
    if process.poll() is None:
        process.send_signal(with_signal)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for child, began in children.items():
        if began and _began(child) == began:  # not another process that has its number now
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
    end = time.monotonic() + END_S
    while any(began and _began(child) == began for child, began in children.items()) and time.monotonic() < end:
        time.sleep(0.01)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            with contextlib.suppress(OSError):
                pipe.close()


def _began(pid: int) -> str | None:
    """When a process began (clock ticks since boot): with its number, its identity. None: it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] == "Z" else fields[19]
    except (OSError, IndexError):
        return None


def _listens(port: int) -> bool:
    """Read from the kernel's table: a connection for a try would be one that the server sees."""
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
                local, state = line.split()[1], line.split()[3]
                if state == "0A" and int(local.rpartition(":")[2], 16) == port:
                    return True
    return False


def _tail(log: Path) -> str:
    return " ".join(log.read_text(errors="replace")[-400:].split())


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return "unreadable"
