"""No byte is lost, torn or late: under threads, forks, signals, closed numbers, changing policies (`stress*.c`)."""

import os
import random
import re
import subprocess
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from qclimb.hostfile import decode_records, encode_policy
from qclimb.lengthfile import is_proposal
from qclimb.policy import Mode
from stand import LIBRARY, ROOT, Libc, built, hostd, policy, put_policy, records_of

SOURCES = sorted((ROOT / "tests" / "shim").glob("stress*.c"))
SCENARIOS = ["streams", "duplex", "fork", "shared", "signals", "signals-restart", "both-write", "close-all", "reset"]
SCENARIOS += ["fork-threads", "exec", "storm", "storm-restart", "handler-writes", "jump", "cancel"]
LOW = {"flow_gap_us": 300, "threshold_bytes": (1000, 9000, 100_000)}


@dataclass(frozen=True)
class Stress:
    """The program, and what is loaded before it."""

    program: Path
    preload: tuple[Path | str, ...]

    def run(self, scenario, run_dir, seconds=0.12, says="", **env):
        done = subprocess.run(
            ["env", f"LD_PRELOAD={' '.join(map(str, self.preload))}", self.program, scenario, str(seconds), "1"],
            env={"PATH": os.environ["PATH"], "QCLIMB_RUN": str(run_dir), **env},
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, f"{scenario}: {done.stderr[-3000:]}"
        assert re.fullmatch(says, done.stderr), done.stderr[-3000:]
        return done.stdout


@pytest.fixture(scope="session")
def stress(tmp_path_factory, libc):
    return Stress(libc.compiled(tmp_path_factory.mktemp("stress") / "stress", "-O1", *SOURCES), (libc.library,))


def runtime(name):
    return subprocess.run(["cc", f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()


@contextmanager
def changing_policy(run_dir, seed=1, every_s=0.02):
    """Another policy file again and again: each mode, and now and then a damaged, short or random one."""
    rng = random.Random(seed)
    stop = threading.Event()

    def write():
        generation = 1
        while not stop.wait(every_s):
            generation += 1
            wanted = policy(
                rng.choice(list(Mode)),
                generation=generation,
                threshold_bytes=tuple(sorted(rng.sample(range(1, 200_000), 3))),
                dscp=tuple(rng.sample(range(64), 4)),
                flow_gap_us=rng.choice([0, 100, 5000]),
                promote_wait_us=rng.choice([0, 100, 10_000]),
                slack_bytes=rng.choice([0, 5000]),
            )
            good = encode_policy(wanted)
            damaged = bytearray(good)
            damaged[rng.randrange(len(good))] ^= 1 << rng.randrange(8)
            put_policy(
                run_dir,
                rng.choice([good, good, bytes(damaged), good[: rng.randrange(len(good))], rng.randbytes(800), b""]),
            )

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.PIAS, Mode.QCLIMB])
def test_no_byte_is_lost_torn_or_late(stress, run_dir, scenario, mode):
    put_policy(run_dir, policy(mode, **LOW))
    stress.run(scenario, run_dir)


@pytest.mark.parametrize("scenario", ["streams", "shared", "fork", "signals"])
def test_no_byte_is_lost_while_policies_change_and_come_damaged(stress, run_dir, scenario):
    put_policy(run_dir, policy())
    with changing_policy(run_dir), hostd(run_dir) as got:
        stress.run(scenario, run_dir, seconds=0.5)
    for datagram in got:
        assert is_proposal(datagram) or decode_records(datagram).records


def test_ten_thousand_connections_by_eight_threads_leave_nothing_while_the_policy_changes(stress, run_dir):
    """The program itself compares its resident memory and its descriptors with those after the first 2,000."""
    put_policy(run_dir, policy())
    with changing_policy(run_dir, seed=4, every_s=0.01), hostd(run_dir) as got:
        said = stress.run("churn", run_dir)
    assert int(said.split(" on ")[1].split()[0]) == 12_000
    assert records_of(got)


def test_in_a_process_of_the_other_libc_the_library_does_nothing(tmp_path, run_dir, libc):
    """Programs start others, and LD_PRELOAD goes with them."""
    if libc.name == "glibc":
        library, program = built("musl"), libc.compiled(tmp_path / "stress", *SOURCES)
    else:
        library, program = LIBRARY, libc.compiled(tmp_path / "stress", *SOURCES)
    put_policy(run_dir, policy())
    with hostd(run_dir) as got:
        said = Stress(program, (library,)).run("streams", run_dir, QCLIMB_LOG="stderr")
    assert int(said.split()[0]) > 0
    assert got == []


# --- sanitizers


# gcc 12's runtime holds locks of its heap over a fork: forks among threads hang under it without the library, too.
@pytest.mark.system
@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name != "fork-threads"])
def test_address_and_undefined_behaviour_sanitizers_find_nothing(tmp_path_factory, run_dir, scenario):
    library = built("sanitize")
    program = Libc("glibc", ("cc",), library).compiled(tmp_path_factory.getbasetemp() / "stress-address", *SOURCES)
    put_policy(run_dir, policy(Mode.QCLIMB, **LOW))
    with changing_policy(run_dir, seed=2):
        Stress(program, (runtime("libasan.so"), runtime("libubsan.so"), library)).run(
            scenario, run_dir, seconds=0.7, ASAN_OPTIONS="detect_leaks=0:verify_asan_link_order=0"
        )


@pytest.fixture(scope="session")
def raced(tmp_path_factory):
    """Program and library with ThreadSanitizer."""
    library = built("thread")
    program = tmp_path_factory.mktemp("thread") / "stress"
    Libc("glibc", ("cc", "-fsanitize=thread"), library).compiled(program, "-O1", *SOURCES)
    try:
        subprocess.run([program, "both-write", "0", "1"], check=True, capture_output=True)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"ThreadSanitizer does not run here: {error.stderr[-300:]!r}")
    return Stress(program, (library,))


# Its runtime allows neither jumps out of a handler nor threads in the child of a process with threads.
RACED = [name for name in SCENARIOS if name not in ("jump", "cancel", "fork-threads")]


@pytest.mark.system
@pytest.mark.parametrize("scenario", RACED)
def test_the_thread_sanitizer_finds_nothing(raced, run_dir, scenario):
    put_policy(run_dir, policy(Mode.QCLIMB, **LOW))
    with changing_policy(run_dir, seed=3, every_s=0.01), hostd(run_dir):
        raced.run(scenario, run_dir, seconds=1.0, TSAN_OPTIONS="atexit_sleep_ms=0")
