"""What libqclimb.so costs a call: 64-byte messages over loopback, bare libc against the library, interleaved, one CPU.

Both ends of the connection are one thread's, and CPU time is counted: no scheduler, no other process is in it.

inside  no call starts a flow (goal: at most 1.03 of bare)
flow    each message is a flow of its own with a record of its own: the most that an application can ask for
other   a descriptor that is none of ours, on the cheapest call there is: read the difference in ns
"""

import os
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from qclimb.hostfile import encode_policy
from qclimb.policy import Mode, Policy, default_dscp

HERE = Path(__file__).parent
HOSTLIB = HERE.parent / "hostlib"
KINDS = {"inside": 40_000, "flow": 20_000, "other": 300_000}
MODES = (None, Mode.OBSERVE, Mode.PIAS, Mode.QCLIMB)
REPEATS = 15
GOAL = 1.03


def policy(mode: Mode) -> Policy:
    """Web search's thresholds of PIAS; what matters here is that 64 bytes cross none."""
    packets = (46, 1084, 1717, 1943, 1989, 1999, 2001)
    return Policy(
        generation=1,
        mode=mode,
        threshold_bytes=tuple(1460 * n for n in packets),
        dscp=default_dscp(8),
        slack_bytes=0,
    )


def round_ns(program: Path, kind: str, run_dir: Path | None) -> float:
    """CPU nanoseconds of one round, under the library where a run directory is given."""
    preload = (
        {} if run_dir is None else {"LD_PRELOAD": str(HOSTLIB / "build" / "libqclimb.so"), "QCLIMB_RUN": str(run_dir)}
    )
    cpu = str(max(os.sched_getaffinity(0)))
    command = ["taskset", "-c", cpu, str(program), kind, str(KINDS[kind])]
    return float(subprocess.run(command, env=preload, check=True, capture_output=True, text=True).stdout)


def run() -> list[dict[str, Any]]:
    """Rows of the benchmark: the median of the ratios to the bare run beside it, and their quartiles."""
    subprocess.run(["make", "-s", "-C", str(HOSTLIB), "lib"], check=True)
    with tempfile.TemporaryDirectory() as place:
        program = Path(place) / "shim_pingpong"
        subprocess.run(["cc", "-O2", "-o", program, HERE / "shim_pingpong.c"], check=True)
        dirs: dict[Mode | None, Path | None] = {None: None}
        for mode in MODES:
            if mode is not None:
                dirs[mode] = Path(place) / mode
                (Path(place) / mode).mkdir()
                (Path(place) / mode / "policy").write_bytes(encode_policy(policy(mode)))
        rows = []
        for kind in KINDS:
            times: dict[Mode | None, list[float]] = {mode: [] for mode in MODES}
            for _ in range(REPEATS):
                for mode in MODES:
                    times[mode].append(round_ns(program, kind, dirs[mode]))
            for mode in MODES[1:]:
                ratios = [ours / bare for ours, bare in zip(times[mode], times[None], strict=True)]
                low, _, high = statistics.quantiles(ratios, n=4)
                rows.append(
                    {
                        "calls": kind,
                        "mode": str(mode),
                        "bare_ns": statistics.median(times[None]),
                        "ns": statistics.median(times[mode]),
                        "ratio": statistics.median(ratios),
                        "quartiles": f"{low:.3f} .. {high:.3f}",
                        "goal": f"<= {GOAL}" if kind == "inside" else "",
                    }
                )
        return rows


if __name__ == "__main__":
    for row in run():
        print(row)
