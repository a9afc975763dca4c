"""What hostd says about itself: `status.json`, written whole at each poll, and its table for the terminal."""

import json
import time
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from qclimb.lengths import by_service, summary

from hostlib.hostd.errors import PlaceError
from hostlib.hostd.known import Known, words
from hostlib.hostd.place import write_whole


@dataclass
class State:
    """Counts are since this hostd started; times are seconds since 1970 (UTC), 0: never."""

    name: str
    orchestrator: str
    pid: int
    started_at: float
    poll_interval_s: float
    updated_at: float = 0.0
    #: of the policy file that shims read now; 0 without one.
    policy_generation: int = 0
    mode: str = "none"
    model_generation: int = 0
    #: the policy says not to use the model; why, the orchestrator's /v1/state tells.
    bounds_off: bool = False
    policy_written_at: float = 0.0
    #: of the policy in force at the shim that sent last.
    shim_policy_generation: int = 0
    datagrams: int = 0
    records: int = 0
    #: records of the host that never reached this process, by the shims' count.
    dropped_by_shims: int = 0
    #: records that are in the histogram only, because the sample was full while the orchestrator was away.
    left_out: int = 0
    #: records shipped that are in no histogram, because a part of their flow bypassed the library.
    unobserved: int = 0
    #: records in shipments that the orchestrator refused for good.
    refused: int = 0
    shipped: int = 0
    waiting: int = 0
    malformed: int = 0
    last_malformed: str = ""
    records_queue_datagrams: int = 0
    last_contact_at: float = 0.0
    failures_in_a_row: int = 0
    #: what keeps the newest policy, model or records from moving; empty when nothing does.
    error: str = ""
    last_error: str = ""
    last_error_at: float = 0.0
    #: what marks packets at this host's devices, or why it is the library alone.
    tagger: str = ""
    #: whose flows are found without the library, or why none are.
    kernel: str = ""
    #: how the messages of services tell their size, and how often rightly (qclimb.lengths.Announced).
    lengths: tuple[dict[str, Any], ...] = ()
    #: bytes of flows whose size each source told before the first ACK (hostd.known.Known).
    known: dict[str, int] = field(default_factory=lambda: asdict(Known()))
    #: directories of cgroup v2 whose programs it serves now.
    kernel_cgroups: tuple[str, ...] = ()
    #: where sockets carry the DSCP themselves: a clause for each reason why some of them don't, and how many now.
    kernel_unmarked: tuple[str, ...] = ()

    def fails(self, sentence: str) -> None:
        """Notes a reason that holds until `works` clears it."""
        self.error = self.last_error = sentence
        self.last_error_at = time.time()

    def write(self, path: Path) -> None:
        """Replaces the status file; not fsynced, for it is worth nothing after a power cut."""
        self.updated_at = time.time()
        write_whole(path, json.dumps(asdict(self), indent=1).encode() + b"\n", durable=False)


def read_state(path: Path) -> dict[str, Any]:
    """The status file's object.

    Raises:
        PlaceError: there is none, or it is not one of ours.
    """
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise PlaceError(f"{path}: {error.strerror}; expected the status file of a qclimb-hostd") from error
    except ValueError as error:
        raise PlaceError(f"{path}: {error}; expected JSON") from error
    missing = {each.name for each in fields(State)} - set(found if isinstance(found, dict) else ())
    if missing:
        raise PlaceError(f"{path} lacks {', '.join(sorted(missing))}; expected the status file of this version")
    return dict(found)


def as_table(found: dict[str, Any], now: float) -> str:
    """The state, and whether its hostd `runs` (None: unknown), as aligned lines."""
    runs = {True: "runs", False: "stopped", None: "may run"}[found["runs"]]
    rows = {
        "hostd": f"{found['name']}, {runs} (pid {found['pid']}, status written {ago(found['updated_at'], now)})",
        "orchestrator": found["orchestrator"],
        "last contact": f"{ago(found['last_contact_at'], now)}, {found['failures_in_a_row']} failures since",
        "policy": f"generation {found['policy_generation']}, written {ago(found['policy_written_at'], now)}"
        if found["policy_generation"]
        else "none",
        "mode": found["mode"],
        "model": f"generation {found['model_generation']}{', bounds off' if found['bounds_off'] else ''}"
        if found["model_generation"]
        else "none",
        "records": f"{found['records']} in {found['datagrams']} datagrams; {found['shipped']} shipped, "
        f"{found['unobserved']} unobserved in part",
        "waiting": f"{found['waiting']} records",
        "drops": f"{found['dropped_by_shims']} by shims, {found['left_out']} left out, {found['refused']} refused",
        "malformed": f"{found['malformed']} datagrams; last: {found['last_malformed'] or 'none'}",
        "tagger": found["tagger"] or "not asked for",
        "kernel mode": found["kernel"] or "not asked for",
        **({"not marked": "; ".join(found["kernel_unmarked"])} if found["kernel_unmarked"] else {}),
        "lengths": summary(by_service(list(found["lengths"]))),
        "sizes known": words(found["known"]),
        "error": found["error"] or "none",
        "last error": f"{found['last_error'] or 'none'} ({ago(found['last_error_at'], now)})",
    }
    width = max(map(len, rows))
    return "\n".join(f"{title:<{width}}  {text}" for title, text in rows.items())


def ago(then: float, now: float) -> str:
    """How long ago a time was, in the unit that reads best."""
    if not then:
        return "never"
    seconds = max(0.0, now - then)
    if seconds < 120:
        return f"{seconds:.1f} s ago"
    return f"{seconds / 60:.0f} min ago" if seconds < 7200 else f"{seconds / 3600:.0f} h ago"
