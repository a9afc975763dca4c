"""The applications over loopback: real sockets, no root."""

import contextlib
import itertools
import os
import shutil
import socket
import struct
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

from lab.workload import programs
from lab.workload.ground import Loopback
from lab.workload.passes import run_pass
from lab.workload.services import SERVICES, service
from lab.workload.trace import Trace


@pytest.fixture(scope="module", autouse=True)
def built():
    programs.build_applications()


NETWORKS = itertools.count(1)
LONG_S = 120


@pytest.fixture
def ground():
    """Addresses that no other test, and no other run of the tests, uses."""
    return Loopback(3, network=f"127.{20 + os.getpid() % 200}.{next(NETWORKS)}")


def trace_of(*lines: str, seconds: float = 0.5) -> Trace:
    return Trace.from_text("\n".join(["# t", f"# seconds {seconds}", *lines]))


def test_every_flow_of_every_service_arrives_whole_and_is_timed(ground, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{n} {n * 2000} {name} h1 h{2 + n % 2} {size}" for n, (name, size) in enumerate(
        [(s, b) for s in ("search", "store", "shuffle", "kv") for b in (32, 33, 1448, 3277, 3278, 70_000, 900_000)], 1
    )]  # fmt: skip
    services = [found for found in SERVICES if found.how != "curl"]
    result = run_pass(ground, trace_of(*lines), "tcp", Path("relative"), services=services)
    assert not result.failures
    assert np.isfinite(result.fct_us).all() and min(result.fct_us) > 0
    assert result.id == list(range(1, len(lines) + 1))
    # 900,000 bytes in chunks of 3277 with a pause of 500 us before each but the first.
    store = result.fct_us[result.service.index("store") + 6]
    assert store >= 274 * 500


def test_flows_that_follow_each_other_share_a_kept_connection(ground, tmp_path):
    listener = socket.create_server((ground.hosts["h3"], service("kv").port))
    accepted = []

    def answer(connection):
        while header := connection.recv(32, socket.MSG_WAITALL):
            _, _, _, size, flow, _ = struct.unpack("=IIIIQQ", header)
            connection.sendall(struct.pack("=IIIIQQ", 0, 2, 0x7472616C, size, flow, 1))

    def serve():
        with contextlib.suppress(OSError):
            while True:
                accepted.append(listener.accept()[0])
                threading.Thread(target=answer, args=(accepted[-1],), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    for gap_us in (40_000, 400_000, 4_000_000):  # a flow that is due before the last has ended takes a connection more
        accepted.clear()
        (tmp_path / "t").write_text("".join(f"{n} {n * gap_us} kv h1 h3 32\n" for n in range(1, 9)))
        driver = programs.start_driver(ground, "h1", tmp_path / "t", tmp_path / "log", 0, 60, [service("kv")])
        assert driver.wait(LONG_S) == 0
        assert len((tmp_path / "log").read_text().splitlines()) == 8
        if len(accepted) == 1:
            break
    listener.close()
    assert len(accepted) == 1


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is missing")
def test_no_proxy_stands_between_curl_and_a_file(ground, tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    listener = socket.create_server((ground.hosts["h3"], service("files").port))

    def serve():
        connection, _ = listener.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 32\r\n\r\n" + bytes(32))

    threading.Thread(target=serve, daemon=True).start()
    (tmp_path / "t").write_text("1 0 files h1 h3 32\n")
    driver = programs.start_driver(ground, "h1", tmp_path / "t", tmp_path / "log", 0, 60, [service("files")])
    assert driver.wait(LONG_S) == 0
    (row,) = (tmp_path / "log").read_text().splitlines()
    assert row.endswith("ok"), row
    listener.close()


def test_bytes_of_another_flow_do_not_pass_the_check(ground, tmp_path):
    listener = socket.create_server((ground.hosts["h2"], service("kv").port))

    def serve():
        connection, _ = listener.accept()
        _, _, _, size, flow, _ = struct.unpack("=IIIIQQ", connection.recv(32, socket.MSG_WAITALL))
        connection.sendall(struct.pack("=IIIIQQ", 0, 2, 0x7472616C, size, flow, 1) + bytes(size - 32))
        with contextlib.suppress(OSError):
            connection.recv(1)  # until the driver has closed it

    threading.Thread(target=serve, daemon=True).start()
    (tmp_path / "t").write_text("5 0 kv h1 h2 500\n")
    driver = programs.start_driver(ground, "h1", tmp_path / "t", tmp_path / "log", 0, 60, [service("kv")])
    assert driver.wait(LONG_S) == 0
    listener.close()
    assert (tmp_path / "log").read_text().split()[-1] == "EBADMSG"


def test_an_open_loop_does_not_wait_for_a_slow_flow(ground, tmp_path):
    # The first flow takes 1220 pauses of 500 us; most of the others must have ended by then, however late one begins.
    lines = ["1 0 store h1 h2 4000000", *(f"{n} {n * 5000} store h1 h2 1000" for n in range(2, 12))]
    result = run_pass(ground, trace_of(*lines), "tcp", tmp_path, services=[service("store")])
    assert not result.failures
    ends = np.array(result.due_us) + np.array(result.late_us) + np.array(result.fct_us)
    assert ends[0] > np.median(ends[1:])


def test_queries_are_real_curl_against_real_nginx(ground, tmp_path):
    files = service("files")
    size = programs.catalogue(files)[5]
    result = run_pass(ground, trace_of(f"1 0 files h2 h1 {size}", f"2 9000 files h2 h3 {size}"), "tcp", tmp_path,
                      services=[files])  # fmt: skip
    assert not result.failures and min(result.fct_us) > 0


def test_a_server_that_is_gone_is_a_failed_flow_and_no_hang(ground, tmp_path):
    (tmp_path / "t").write_text("1 0 kv h1 h2 100\n")
    driver = programs.start_driver(ground, "h1", tmp_path / "t", tmp_path / "log", 0, 60, [service("kv")])
    assert driver.wait(LONG_S) == 0
    assert (tmp_path / "log").read_text().split()[-1] == "ECONNREFUSED"


def test_a_flow_that_never_ends_is_unfinished_at_the_deadline(ground, tmp_path):
    listener = socket.create_server((ground.hosts["h2"], service("kv").port))
    (tmp_path / "t").write_text("1 0 kv h1 h2 100\n")
    driver = programs.start_driver(ground, "h1", tmp_path / "t", tmp_path / "log", 0, 1, [service("kv")])
    assert driver.wait(LONG_S) == 3
    listener.close()
    assert (tmp_path / "log").read_text().split()[-1] == "unfinished"


def test_nothing_runs_any_more_after_a_pass_that_failed(ground, tmp_path):
    trace = trace_of("1 0 kv h1 h2 100")
    started = []
    start = ground.start
    ground.start = lambda *arguments, **more: started.append(start(*arguments, **more)) or started[-1]
    ground.tcp_counters = lambda host: (_ for _ in ()).throw(programs.WorkloadError("boom"))
    with pytest.raises(programs.WorkloadError, match="boom"):
        run_pass(ground, trace, "tcp", tmp_path, services=[service("kv")])
    assert started and all(process.poll() is not None for process in started)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve", "--port", "0"], "--port: '0' is not a whole number from 1"),
        (["serve", "--port", "80", "--write", "chunks:5"], "--write: 'chunks:5'"),
        (["serve", "--bind", "here", "--port", "80"], "--bind: 'here' is not an IPv4 address"),
        (["drive", "--me", "h1"], "--me, --trace and --log are needed"),
        (["drive", "--service", "kv=7004,tow"], "'tow' is not pull, push or curl"),
    ],
)
def test_wrong_arguments_are_one_sentence_and_exit_2(arguments, words):
    done = subprocess.run([str(programs.TRAFFIC), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.skipif(not shutil.which("ss"), reason="needs ss (iproute2)")
def test_servers_let_as_many_connections_wait_as_the_kernel_allows(ground, tmp_path):
    """Fewer, and handshakes whose last packet comes late are given up, and the flows reset: Spark's replay lost 105."""
    with programs.servers(ground, tmp_path, [service("kv")]):
        said = subprocess.run(
            ["ss", "-ltnH", f"sport = :{service('kv').port}"], check=True, capture_output=True, text=True
        ).stdout
    waiting = {int(line.split()[2]) for line in said.splitlines() if ground.hosts["h1"].rpartition(".")[0] in line}
    assert waiting == {int(Path("/proc/sys/net/core/somaxconn").read_text())}
