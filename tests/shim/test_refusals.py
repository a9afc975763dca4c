"""A boundary refuses no write that a bare kernel would surely take: programs may not know what to do then."""

import json
import shutil
import signal
import subprocess
from itertools import count

import pytest
import stand
from qclimb.policy import Mode
from stand import DSCP, LIBRARY, PYTHON, B, environment, policy, put_policy, segments, stream, wait_until

PORTS = count(8000)
ROOM = 16_384
"""Bytes that a fresh connection takes of pieces of any size."""
THRESHOLDS = (1_000, 4_000, 100_000)

pytestmark = pytest.mark.fabric

# Its window is about two segments; reads from a signal on.
SINK = """
import signal, socket, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
s.bind(("", int(sys.argv[1]))); s.listen(); print("ready", flush=True)
c, _ = s.accept()
signal.sigwait([signal.SIGUSR1])
got = 0
while data := c.recv(65536): got += len(data)
print(got, flush=True)
"""

# Writes pieces without ever waiting for an event, and tells each write that was refused or short.
SOURCE = """
import json, socket, sys
address, port, pieces = json.loads(sys.argv[1])
s = socket.create_connection((address, port))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
s.setblocking(False)
refused, sent = [], 0
for size in pieces:
    try:
        wrote = s.send(bytes(size))
    except BlockingIOError:
        wrote = 0
    if wrote < size: refused.append([sent, size, wrote])
    sent += wrote
print(json.dumps({"refused": refused, "sent": sent}), flush=True)
s.setblocking(True)
s.shutdown(1); s.recv(1)
"""


def talk(link, run_dir, pieces):
    """The stream at the receiver, the writes that were refused, and the library's log of the source."""
    port = next(PORTS)
    log = run_dir / "log"
    with link.capture() as pcap:
        sink = link.start(link.b, [PYTHON, "-c", SINK, str(port)], run_dir)
        try:
            assert sink.stdout.readline() == "ready\n"
            argv = [PYTHON, "-c", SOURCE, json.dumps([B, port, pieces])]
            source = link.start(link.a, argv, run_dir, QCLIMB_LOG=str(log))
            said = json.loads(source.stdout.readline())
            sink.send_signal(signal.SIGUSR1)
            got, _ = sink.communicate(timeout=60)
            _, error = source.communicate(timeout=60)
            assert source.returncode == 0, error
        finally:
            sink.kill()
    assert int(got) == said["sent"]
    return stream(segments(pcap), to_port=port), said["refused"], log.read_text()


def in_order(seen):
    return [span[0] for span in seen.spans] == sorted(span[0] for span in seen.spans)


@pytest.mark.parametrize("mode", [Mode.PIAS, Mode.QCLIMB])
@pytest.mark.parametrize("piece", [49, 1000])
def test_small_writes_on_a_nearly_empty_socket_are_never_refused(link, run_dir, mode, piece):
    put_policy(run_dir, policy(mode, threshold_bytes=THRESHOLDS))
    for _ in range(10):  # a link that is faster than a busy writer leaves nothing to put off
        seen, refused, log = talk(link, run_dir, [piece] * (ROOM // piece))
        if "puts off" in log:
            break
    assert "puts off" in log  # else nothing was tried
    assert refused == []
    assert seen.bytes == ROOM // piece * piece
    assert in_order(seen)


# Both ends: as much is read as is written, so that there always is something unsent, and there always is room.
LOCKSTEP = """
import fcntl, json, socket, struct, sys
SIOCOUTQNSD = 0x894B
server = socket.socket(); server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
server.bind(("127.0.0.1", 0)); server.listen()
s = socket.create_connection(server.getsockname())
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
s.setblocking(False)
c, _ = server.accept()
steps = []
for at in range(0, 60_000, 1000):
    assert s.send(bytes(1000)) == 1000
    steps.append(struct.unpack("i", fcntl.ioctl(s, SIOCOUTQNSD, bytes(4)))[0])
    if at >= 12_000:
        c.recv(1000, socket.MSG_WAITALL)
print(json.dumps(steps))
"""


def test_a_boundary_that_is_put_off_comes_late_and_never_early(run_dir):
    put_policy(run_dir, policy(threshold_bytes=(8_000, 100_000, 200_000), flow_gap_us=5_000_000))
    env = {"LD_PRELOAD": str(LIBRARY), "QCLIMB_RUN": str(run_dir), "QCLIMB_LOG": "stderr"}
    done = subprocess.run([PYTHON, "-c", LOCKSTEP], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    unsent = json.loads(done.stdout)
    assert min(unsent[7:]) > 0  # else nothing was tried
    (demoted,) = [int(line.rpartition("at=")[2]) for line in done.stderr.splitlines() if f"dscp={DSCP[1]} " in line]
    assert 8_000 < demoted <= 8_000 + ROOM
    assert demoted - (unsent[demoted // 1000] - 1000) >= 8_000  # what was unsent then lies past the boundary


def test_where_more_waits_than_a_bare_kernel_surely_takes_a_call_ends_at_the_boundary(link, run_dir):
    put_policy(run_dir, policy(threshold_bytes=(30_000, 60_000, 100_000)))
    seen, refused, log = talk(link, run_dir, [*[1000] * 29, 150_000])
    ((at, asked, wrote),) = refused
    assert (at, asked) == (29_000, 150_000)
    assert 0 < wrote <= 1000  # the kernel itself may take a little less where its buffer is full: 960 were seen
    assert "puts off" not in log
    assert seen.edges() == [(0, DSCP[0])]


@pytest.fixture(scope="module")
def slow(tmp_path_factory, link):
    """A link of 1 Mb/s."""
    with stand.bench(tmp_path_factory.mktemp("slow"), rate_mbit=1) as made:
        yield made


@pytest.mark.parametrize("mode", [Mode.PIAS, Mode.QCLIMB])
def test_curl_asks_for_many_files_at_once_over_http2(slow, run_dir, tmp_path, mode):
    """curl 7.88 loses an HTTP/2 request whose write is refused: exit 92, or no end."""
    for program in ("nginx", "curl", "openssl", "ss"):
        if not shutil.which(program):
            pytest.skip(f"needs {program}")
    if "HTTP2" not in subprocess.run(["curl", "--version"], capture_output=True, text=True).stdout:
        pytest.skip("needs a curl with HTTP/2")
    port = next(PORTS)
    (tmp_path / "body").write_bytes(bytes(1000))
    tmp_path.chmod(0o755)
    key, chain = tmp_path / "key", tmp_path / "chain"
    new = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=nginx", "-addext", f"subjectAltName=IP:{B}"]
    subprocess.run([*new, *names, "-keyout", key, "-out", chain], check=True, capture_output=True)
    places = "".join(f" {k}_temp_path {tmp_path}/{k};" for k in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; worker_processes 1; pid {tmp_path}/pid; error_log stderr warn; user root;\nevents {{}}\n"
        f"http {{ access_log off; {places} server {{ listen {port} ssl http2; root {tmp_path};"
        f" ssl_certificate {chain}; ssl_certificate_key {key}; }} }}\n"
    )
    put_policy(run_dir, policy(mode, threshold_bytes=THRESHOLDS))
    at = ["ip", "netns", "exec"]
    nginx = subprocess.Popen([*at, slow.b, "nginx", "-c", tmp_path / "nginx.conf"], stderr=subprocess.PIPE)
    try:
        wait_until(lambda: subprocess.run([*at, slow.b, "ss", "-Hltn", f"sport = :{port}"], capture_output=True).stdout)
        targets = [word for n in range(40) for word in (f"https://{B}:{port}/body", "-o", str(tmp_path / f"got{n}"))]
        setting = [f"{name}={value}" for name, value in environment(run_dir).items()]
        curl = [*at, slow.a, "env", *setting, "curl", "-fsS", "--http2", "-Z", "--cacert", chain, *targets]
        done = subprocess.run(curl, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert all((tmp_path / f"got{n}").read_bytes() == bytes(1000) for n in range(40))
    finally:
        nginx.terminate()
        nginx.communicate(timeout=60)
