"""What the library asks of kernel and files fails: the application's bytes arrive all the same, in order and once."""

import os
import re
import select
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest
from qclimb.hostfile import decode_records
from qclimb.lengthfile import is_proposal
from qclimb.policy import Mode
from stand import LIBRARY, ROOT, Libc, environment, hostd, policy, put_policy, records_of
from test_stress import LOW, SOURCES, Stress

FAULTS = ROOT / "tests" / "shim" / "faults.c"


@pytest.fixture(scope="session")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    libc = Libc("glibc", ("cc",), LIBRARY)
    return Stress(libc.compiled(folder / "stress", "-O1", *SOURCES), (LIBRARY,))


@pytest.fixture(scope="session")
def faults(tmp_path_factory):
    library = tmp_path_factory.mktemp("faults") / "faults.so"
    subprocess.run(["cc", "-O1", "-g", "-Wall", "-shared", "-fPIC", "-o", library, FAULTS, "-ldl"], check=True)
    return library


@pytest.mark.parametrize("scenario", ["streams", "duplex", "shared", "fork", "signals", "reset"])
@pytest.mark.parametrize("one_in", [1, 2, 20])
def test_whatever_the_kernel_refuses_the_library_no_byte_is_lost(plain, faults, run_dir, scenario, one_in):
    """Memory, descriptors, options, counts, waits, files: all of them (1), or one in so many."""
    put_policy(run_dir, policy(Mode.QCLIMB, **LOW, promote_wait_us=20_000))
    under = Stress(plain.program, (LIBRARY, faults))
    with hostd(run_dir):
        said = under.run(scenario, run_dir, FAULTS=str(one_in), says="(faults: [1-9].*\n)+")
    assert int(said.split()[0]) > 0


def test_a_log_on_a_full_disk_is_no_failure(plain, run_dir):
    put_policy(run_dir, policy(Mode.QCLIMB, **LOW))
    assert int(plain.run("streams", run_dir, QCLIMB_LOG="/dev/full").split()[0]) > 0


def test_a_log_stays_within_the_programs_limit_of_a_files_size(run_dir):
    put_policy(run_dir, policy(Mode.QCLIMB, **LOW))
    log = run_dir / "log"
    code = (
        "import resource, signal, socket; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "for _ in range(100): socket.create_connection(server.getsockname()).send(b'x'); server.accept()"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(run_dir, QCLIMB_LOG=str(log)), timeout=60)
    assert done.returncode == 0
    assert 3000 < log.stat().st_size <= 4096


@pytest.mark.parametrize("reader", ["none", "comes and goes"])
def test_a_log_in_a_fifo_holds_nobody_and_ends_nobody(plain, run_dir, reader):
    put_policy(run_dir, policy(Mode.QCLIMB, **LOW))
    fifo = run_dir / "log"
    os.mkfifo(fifo)
    end = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK) if reader != "none" else -1

    def goes():
        os.read(end, 100)
        os.close(end)

    if reader != "none":
        going = threading.Thread(target=lambda: select.select([end], [], [], 60) and goes())
        going.start()
    assert int(plain.run("streams", run_dir, QCLIMB_LOG=str(fifo)).split()[0]) > 0
    if reader != "none":
        going.join()


PAIR = """
import os, resource, socket, sys, time
def pair():
    server, client = socket.socket(), socket.socket()  # create_connection() would load more
    server.bind(("127.0.0.1", 0)); server.listen()
    client.connect(server.getsockname()); peer, _ = server.accept()
    server.close()
    return client, peer
data, room = b"q" * 50_000, bytearray(50_000)
def talk(client, peer):
    for one, other in ((client, peer), (peer, client)):
        one.sendall(data)
        assert other.recv_into(room, 50_000, socket.MSG_WAITALL) == 50_000 and room == data
"""


def application(run_dir, code):
    done = subprocess.run(
        [sys.executable, "-c", PAIR + code], env=environment(run_dir), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_a_free_descriptor_records_are_counted_and_come_later(run_dir):
    """Where the application has the last one, the library takes none; it tries again a second later."""
    put_policy(run_dir, policy(Mode.PIAS))
    code = """
client, peer = pair()
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (peer.fileno() + 1, hard))
try:
    while True:
        os.dup(0)
except OSError as error:
    assert error.errno == 24, error
for _ in range(20):
    talk(client, peer)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
time.sleep(1.1)
talk(client, peer)
client.close(); peer.close()
"""
    with hostd(run_dir) as got:
        application(run_dir, code)
    assert sum(decode_records(datagram).dropped for datagram in got if not is_proposal(datagram)) > 0
    assert records_of(got)


def test_without_memory_sockets_pass_through(run_dir):
    """A limit of address space that leaves no room for the library's tables, from the first socket on."""
    put_policy(run_dir, policy(Mode.QCLIMB))
    code = """
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + 4096, resource.RLIM_INFINITY))
client, peer = pair()
talk(client, peer)
"""
    application(run_dir, code)


def test_thousands_of_policy_files_replaced_cut_and_written_in_place_change_no_byte(plain, run_dir):
    """5,000 files in the time of one run: half of them renamed, the others written over the file that is read."""
    put_policy(run_dir, policy())
    process = subprocess.Popen(
        [plain.program, "duplex", "3", "5"], env=environment(run_dir), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    good = (run_dir / "policy").read_bytes()
    count = 0
    while process.poll() is None or count < 5000:
        cut = good[: count * 7919 % len(good)]
        wanted = (good, cut, os.urandom(len(good)), b"")[count % 4]
        if count % 8 < 4:
            put_policy(run_dir, wanted)
        else:
            (run_dir / "policy").write_bytes(wanted)
        count += 1
    assert process.returncode == 0, process.stderr.read()
    assert process.stderr.read() == b""


def test_whoever_takes_records_is_killed_again_and_again_under_load(plain, run_dir):
    """As kill -9 of hostd: its socket stays behind as a file that nobody serves, and the next one replaces it."""
    put_policy(run_dir, policy(Mode.QCLIMB, **LOW))
    argv = [plain.program, "streams", "3", "6"]
    for _ in range(5):  # a machine that is busy with others may leave it no time to be served twice
        served = 0
        process = subprocess.Popen(argv, env=environment(run_dir), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while process.poll() is None:
            with suppress(FileNotFoundError):
                (run_dir / "records").unlink()
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox:
                inbox.bind(str(run_dir / "records"))
                inbox.settimeout(1.3)
                with suppress(TimeoutError):
                    served += len(records_of([inbox.recv(65536)])) > 0
            time.sleep(0.05)
        said, error = process.communicate()
        assert process.returncode == 0, error
        assert re.match(rb"[1-9]\d* bytes", said)
        if served >= 2:
            break
    assert served >= 2
