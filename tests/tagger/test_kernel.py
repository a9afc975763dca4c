"""The kernel mode: flows of programs that know nothing of qclimb are found at writes and marked at each packet."""

import json
import shutil
import subprocess

import pytest
import stand
from hosts import PORTS
from qclimb.policy import Mode
from scoped import PROGRAMS, kernel_mode, send
from stand import B6, DSCP, THRESHOLDS, B, policy
from test_marks import assert_demoted_late, at_packets, demoted, edges

from lab.fabric.netns import entered
from tests.tiers import quick_first

pytestmark = pytest.mark.fabric
SIZE = 250_000


@pytest.fixture(scope="session")
def static_c(tmp_path_factory):
    """A program without any shared library."""
    if not shutil.which("musl-gcc"):
        pytest.skip("needs musl-gcc")
    program = tmp_path_factory.mktemp("static") / "send"
    subprocess.run(["musl-gcc", "-static", "-O2", "-o", program, PROGRAMS / "send.c"], check=True)
    return [program]


@pytest.fixture(scope="session")
def go(tmp_path_factory):
    if not shutil.which("go"):
        pytest.skip("needs go")
    place = tmp_path_factory.mktemp("go")
    subprocess.run(["go", "build", "-o", place / "send", PROGRAMS / "send.go"], check=True, cwd=place)
    return [place / "send"]


@pytest.fixture(scope="session")
def java():
    if not shutil.which("javac"):
        pytest.skip("needs a JDK")
    return ["java", "-XX:+UseSerialGC", PROGRAMS / "Send.java"]


def flows(sizes):
    """Edges of flows of these sizes, one after another on a connection."""
    starts = [sum(sizes[:flow]) for flow in range(len(sizes))]
    rule = [(start + at, dscp) for start, size in zip(starts, sizes, strict=True) for at, dscp in demoted(size)]
    return [edge for before, edge in zip([(0, None), *rule], rule, strict=False) if before[1] != edge[1]]


@pytest.fixture(scope="session")
def io_uring(tmp_path_factory):
    program = tmp_path_factory.mktemp("ring") / "send"
    subprocess.run(["gcc", "-static", "-DBY_IO_URING", "-O2", "-o", program, PROGRAMS / "send.c"], check=True)
    return [program]


@pytest.fixture
def kernel(pair):
    with kernel_mode(pair[0], policy()) as made:
        yield made, pair[1]


@pytest.mark.parametrize("to", [B, B6])
@pytest.mark.parametrize("size", quick_first([250_000, 1_024, 12_000, 10_485_760], 2))
def test_a_static_program_is_demoted_at_the_packet_of_each_threshold(kernel, static_c, size, to):
    a, b = kernel
    seen = send(a, b, static_c, size, to=to)
    assert seen.bytes == size
    assert edges(seen) == at_packets(demoted(size), seen)
    assert seen.syn_dscp == DSCP[0]
    assert seen.pure_ack_dscps <= {DSCP[0]}


@pytest.mark.parametrize(
    "language", ["io_uring", *(pytest.param(name, marks=pytest.mark.system) for name in ("go", "java"))]
)
def test_so_is_one_whose_calls_no_library_sees(kernel, request, language):
    a, b = kernel
    program = request.getfixturevalue(language)
    for size in (1_024, 100_000, 10_485_760):
        seen = send(a, b, program, size)
        assert_demoted_late(seen, size)  # Java writes in pieces


def answers_by_sendfile(a, b, place, sizes, more=""):
    """What nginx on `a` sends for files of these sizes, on one connection; and the records of its flows."""
    if not shutil.which("nginx") or not shutil.which("curl"):
        pytest.skip("needs nginx and curl")
    place.chmod(0o755)
    for size in sizes:
        (place / str(size)).write_bytes(bytes(size))
    config = place / "nginx.conf"
    config.write_text(
        f"user root; daemon off; worker_processes 1; pid {place}/pid; error_log stderr crit; events {{}}\n"
        f"http {{ access_log off; sendfile on; {more} server {{ listen {stand.A}:80; root {place}; }} }}\n"
    )
    server = a.start("nginx", "-c", config, "-p", place)
    try:
        url = f"http://{stand.A}/"
        fetch = ["nsenter", f"--net=/run/netns/{b.netns}", "curl", "-sf", "-o", "/dev/null"]
        stand.wait_until(lambda: not subprocess.run([*fetch, f"{url}{sizes[0]}"]).returncode)
        with b.bench.capture("b") as pcap:
            argv = [word for size in sizes for word in ("-o", "/dev/null", f"{url}{size}")]
            subprocess.run([*fetch[:4], *argv], check=True)
        seen = stand.stream([s for s in stand.segments(pcap) if s.flags != 4], from_port=80)
    finally:
        server.terminate()
        server.wait(60)
    return seen, a.told(len(sizes) + 1)[-len(sizes) :]


def test_a_server_answers_by_sendfile(kernel, tmp_path):
    sizes = (1_024, 100_000, 1_000_000, 10_485_760)
    seen, records = answers_by_sendfile(*kernel, tmp_path, sizes)
    told = [record.size_bytes for record in records]
    assert [found - size for found, size in zip(told, sizes, strict=True)] == pytest.approx([240] * len(sizes), abs=40)
    assert edges(seen) == at_packets(flows(told), seen)


def test_a_file_that_sendfile_sends_is_known_as_a_whole_and_climbs(pair, tmp_path):
    """Though the kernel sees 64 KB at a time. Its header is held back until then, or it would be ACKed on its own."""
    with kernel_mode(pair[0], policy(Mode.QCLIMB)) as a:
        seen, records = answers_by_sendfile(a, pair[1], tmp_path, (SIZE,), "tcp_nopush on;")
    whole = records[0].size_bytes
    assert records[0].footprint_lower_bytes == whole
    header = whole - SIZE
    early = {dscp for first, _, dscp in seen.spans if header <= first < whole - THRESHOLDS[2] - 70_000}
    assert early == {DSCP[3]}
    assert {dscp for first, _, dscp in seen.spans if first > header} == set(DSCP)


def test_a_sendfile_asks_for_no_more_than_its_file_holds(kernel, tmp_path):
    """CPython asks for 2^30 bytes to say "to its end"."""
    a, b = kernel
    (tmp_path / "file").write_bytes(bytes(SIZE))
    port = next(PORTS)
    program = (
        "import os, socket\n"
        f"to = socket.create_connection(({B!r}, {port}))\n"
        f"file = os.open({str(tmp_path / 'file')!r}, os.O_RDONLY)\n"
        "done = 20_000\n"
        "while sent := os.sendfile(to.fileno(), file, done, 1 << 30): done += sent\n"
    )
    reads = f"import socket; it = socket.create_server(({B!r}, {port})); print(1, flush=True); it = it.accept()[0]"
    sink = b.start([stand.PYTHON, "-c", f"{reads}\nwhile it.recv(1 << 20): pass"], LD_PRELOAD="")
    sink.stdout.readline()
    assert a.start(stand.PYTHON, "-c", program).wait(60) == 0
    sink.wait(60)
    [record] = a.told(1)
    assert (record.size_bytes, record.first_write_bytes) == (SIZE - 20_000, SIZE - 20_000)


@pytest.mark.parametrize("size", [1_024, SIZE, 10_485_760])
def test_a_client_that_uploads(kernel, tmp_path, size):
    if not shutil.which("curl"):
        pytest.skip("needs curl")
    a, b = kernel
    port = next(PORTS)
    body = tmp_path / "body"
    body.write_bytes(bytes(size))
    server = (
        "import http.server\n"
        "class Taker(http.server.BaseHTTPRequestHandler):\n"
        "    def do_PUT(self):\n"
        "        self.rfile.read(int(self.headers['Content-Length'])); self.send_response(204); self.end_headers()\n"
        f"taker = http.server.HTTPServer(('0.0.0.0', {port}), Taker)\n"
        "print('ready', flush=True)\n"
        "taker.handle_request()\n"
    )
    with b.bench.capture("b") as pcap:
        taker = b.start([stand.PYTHON, "-c", server], LD_PRELOAD="")
        assert taker.stdout.readline() == "ready\n"
        # Without "Expect: 100-continue", whose answer is a turn: the header is a flow of its own then.
        assert a.start("curl", "-sf", "-H", "Expect:", "-T", body, f"http://{B}:{port}/").wait(60) == 0
        taker.wait(60)
    seen = stand.stream(stand.segments(pcap), to_port=port)
    assert_demoted_late(seen, seen.bytes)


def test_a_kept_connection_carries_a_flow_for_each_turn(kernel, static_c):
    a, b = kernel
    seen = send(a, b, static_c, 60_000, flows=3)
    assert edges(seen) == at_packets(flows([60_000] * 3), seen)
    assert [record.size_bytes for record in a.told(3)] == [60_000] * 3
    last = a.records[-1]
    assert last.last_size_bytes[:3] == (60_000, 60_000, 0)
    assert (last.comm, last.role, last.flow_index) == ("send", 0, 2)


def test_small_writes_of_one_flow_are_never_cut(kernel, static_c):
    a, b = kernel
    send(a, b, static_c, 1_000_000, chunk=4_096)
    assert [(record.size_bytes, record.last_priority) for record in a.told(1)] == [(1_000_000, 3)]
    assert a.records[0].first_write_bytes == 4_096


def test_the_size_of_a_write_is_its_whole_count(kernel, static_c):
    a, b = kernel
    send(a, b, static_c, 8_000_000)
    assert a.told(1)[0].first_write_bytes == 8_000_000


def test_nobody_outside_the_cgroup_is_touched(kernel, static_c):
    a, b = kernel
    seen = send(a, b, static_c, SIZE, is_in=False)
    assert edges(seen) == [(0, 0)]
    assert seen.syn_dscp == 0
    assert a.kernel.counts() == {"flows": 0, "dropped": 0, "sockets": 0}


def test_with_ports_only_their_connections_are_served(pair, static_c):
    served, other = next(PORTS), next(PORTS)
    with kernel_mode(pair[0], policy(), ports=(served,)) as a:
        assert edges(send(a, pair[1], static_c, SIZE, port=other)) == [(0, 0)]
        seen = send(a, pair[1], static_c, SIZE, port=served)
        assert edges(seen) == at_packets(demoted(SIZE), seen)


def test_an_application_keeps_the_dscp_that_it_chose(kernel):
    a, b = kernel
    port = next(PORTS)
    with b.bench.capture("b") as pcap:
        sink = b.start([stand.PYTHON, stand.TALK, "sink", json.dumps({"address": B, "port": port})], LD_PRELOAD="")
        sink.stdout.readline()
        words = json.dumps({"address": B, "port": port, "size": SIZE, "tos": 0x28})
        assert a.start(stand.PYTHON, stand.TALK, "source", words).wait(60) == 0
        sink.wait(60)
    assert edges(stand.stream(stand.segments(pcap), to_port=port)) == [(0, 10)]


def test_in_mode_observe_flows_are_recorded_and_nothing_is_marked(pair, static_c):
    with kernel_mode(pair[0], policy(Mode.OBSERVE)) as a:
        assert edges(send(a, pair[1], static_c, SIZE)) == [(0, 0)]
        assert [record.size_bytes for record in a.told(1)] == [SIZE]


def test_before_the_first_policy_flows_are_recorded_and_nothing_is_marked(kernel, static_c):
    """The orchestrator makes its first revision of what hosts record."""
    a, b = kernel
    with entered(a.host.netns):
        a.tagger.follow(None)
        a.kernel.follow(None)
    assert (a.tagger.problem, a.kernel.problem) == ("", "")
    seen = send(a, b, static_c, SIZE)
    assert edges(seen) == [(0, 0)]
    assert seen.syn_dscp == 0
    assert [(record.size_bytes, record.mode) for record in a.told(1)] == [(SIZE, Mode.OBSERVE)]


def test_a_new_policy_counts_from_the_next_packet(kernel, static_c):
    a, b = kernel
    a.follow(policy(generation=2, threshold_bytes=(20_000, 60_000, 120_000)))
    seen = send(a, b, static_c, SIZE)
    assert [at // 10_000 for at, _ in edges(seen)] == [0, 2, 6, 12]


def test_the_library_beside_it_tells_and_does_not_mark(kernel):
    a, b = kernel
    with stand.hostd(a.host.run_dir) as got:
        before = a.kernel.counts()
        env = stand.environment(a.host.run_dir)
        port = next(PORTS)
        words = {"address": B, "port": port, "flows": 2}
        with b.bench.capture("b") as pcap:
            sink = b.start([stand.PYTHON, stand.TALK, "sink", json.dumps(words)], LD_PRELOAD="")
            sink.stdout.readline()
            source = a.start(stand.PYTHON, stand.TALK, "source", json.dumps({**words, "size": SIZE}), env=env)
            said = json.loads(source.stdout.readline())
            assert source.wait(60) == 0
            sink.wait(60)
    seen = stand.stream(stand.segments(pcap), to_port=port)
    assert edges(seen) == at_packets(flows([SIZE] * 2), seen)
    assert said["shown"] == [[0, 0]] * 2
    assert [record.size_bytes for record in stand.records_of(got)] == [SIZE, SIZE]
    assert a.kernel.counts()["flows"] == before["flows"]
