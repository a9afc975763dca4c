"""Applications that are not ours, unmodified, on the shaped link: right bytes, right DSCPs, no retransmission."""

import random
import shutil
import subprocess
from itertools import count

import pytest
from qclimb.policy import Mode
from stand import (
    DSCP,
    THRESHOLDS,
    B,
    assert_demoted,
    assert_late,
    environment,
    policy,
    put_policy,
    segments,
    stream,
    wait_until,
)

PORTS = count(6000)
BODY = random.Random(5).randbytes(400_000)

pytestmark = pytest.mark.fabric


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            pytest.skip(f"needs {program}")


def listening(host, port):
    out = subprocess.run(
        ["ip", "netns", "exec", host, "ss", "-Hltn", f"sport = :{port}"], capture_output=True, text=True
    )
    return bool(out.stdout)


@pytest.fixture
def nginx(link, run_dir, tmp_path):
    need("nginx", "curl", "ss")
    port = next(PORTS)
    (tmp_path / "body").write_bytes(BODY)
    tmp_path.chmod(0o755)
    config = tmp_path / "nginx.conf"
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "".join(f" {kind}_temp_path {tmp_path}/{kind};" for kind in kinds)

    def start(wanted, nopush="on"):
        put_policy(run_dir, wanted)
        config.write_text(
            f"daemon off; worker_processes 1; pid {tmp_path}/pid; error_log stderr warn; user root;\n"
            "events {}\n"
            f"http {{ access_log off; sendfile on; tcp_nopush {nopush}; keepalive_timeout 60; {places}"
            f" server {{ listen {port}; root {tmp_path}; }} }}\n"
        )
        argv = [shutil.which("nginx"), "-c", str(config)]
        process = link.start(link.b, argv, run_dir, QCLIMB_LOG=str(run_dir / "log"))
        started.append(process)
        wait_until(lambda: listening(link.b, port))
        return port

    started = []
    yield start
    for process in started:
        process.terminate()
        _, error = process.communicate(timeout=60)
        assert "alert" not in error, error


def under(link, run_dir, *command, **more):
    """A program of host a under the library, to its end; what it printed."""
    setting = [f"{name}={value}" for name, value in environment(run_dir).items()]
    argv = ["ip", "netns", "exec", link.a, "env", *setting, *command]
    return subprocess.run(argv, capture_output=True, check=True, timeout=60, **more).stdout


def curl(link, run_dir, *urls):
    return under(link, run_dir, "curl", "-sS", *urls)


def test_nginx_answers_curl_and_each_response_is_a_flow(link, run_dir, nginx):
    port = nginx(policy())
    url = f"http://{B}:{port}/body"
    with link.capture("a") as pcap:
        got = curl(link, run_dir, url, url, url)
    assert got == BODY * 3
    seen = stream(segments(pcap), from_port=port)
    response = seen.bytes // 3
    for start in (0, response, 2 * response):
        assert_demoted([(at, dscp) for at, dscp in seen.edges() if start <= at < start + response], start=start)
    assert len(seen.edges()) >= 9
    assert seen.repeated <= link.probes


@pytest.mark.parametrize("nopush", ["off", "on"])
def test_nginx_climbs_without_overtaking_itself_and_not_under_a_cork(link, run_dir, nginx, nopush):
    port = nginx(policy(Mode.QCLIMB), nopush)
    with link.capture("a") as pcap:
        got = curl(link, run_dir, *[f"http://{B}:{port}/body"] * 4)
    assert got == BODY * 4
    seen = stream(segments(pcap), from_port=port)
    # A header in a write of its own, then the body by a non-blocking sendfile: L is both, once the second call is made.
    response = seen.bytes // 4
    header = response - len(BODY)
    climb = [(0, 47), (header, 35), (response - THRESHOLDS[2] + 1, 39), (response - THRESHOLDS[1] + 1, 43)]
    found = [[(at - n * response, dscp) for at, dscp in seen.edges() if at // response == n] for n in range(4)]
    for edges in found:
        assert edges[:1] == climb[:1]
        if nopush == "on":  # a drain would wait for the last, corked segment's timer: as in PIAS
            assert_demoted(edges)
        else:
            assert_late(edges[1:], climb[1:])
    assert nopush == "on" or max(map(len, found)) > 2
    assert seen.repeated <= link.probes


@pytest.mark.parametrize("mode", [Mode.PIAS, Mode.QCLIMB])
def test_redis_gives_back_what_it_was_given(link, run_dir, tmp_path, mode):
    need("redis-server", "redis-cli", "ss")
    put_policy(run_dir, policy(mode))
    port = next(PORTS)
    server = link.start(
        link.b,
        ["redis-server", "--port", str(port), "--protected-mode", "no", "--save", "", "--dir", str(tmp_path)],
        run_dir,
    )
    try:
        wait_until(lambda: listening(link.b, port))
        value = BODY[:300_000].hex()
        client = ["redis-cli", "-h", B, "-p", str(port)]
        with link.capture("a") as pcap:
            assert under(link, run_dir, *client, "-x", "set", "k", input=value, text=True) == "OK\n"
            assert under(link, run_dir, *client, "get", "k", text=True) == value + "\n"
        get = segments(pcap)
        largest = max({s.dport for s in get}, key=lambda p: sum(s.payload for s in get if s.dport == p))
        seen = stream(get, from_port=port, to_port=largest)
        assert seen.bytes > 600_000
        assert seen.repeated <= link.probes
        if mode is Mode.PIAS:
            assert [dscp for _, dscp in seen.edges()][-4:] == list(DSCP)
    finally:
        server.terminate()
        server.wait(60)
