"""Lengths that applications write themselves: what the library announces, uses, proposes, and never looks at."""

import http.client
import http.server
import json
import os
import socket
import subprocess
from pathlib import Path

import pytest
from qclimb.lengthfile import decode_proposal, encode_lengths, is_proposal
from qclimb.lengths import Announced, LengthRule, Service, Use
from qclimb.policy import Mode
from qclimb.record import BY_HTTP, BY_RULE, BY_TRIAL, CUT, HAD_LENGTH_BOUND
from stand import DSCP, PYTHON, bench, environment, hostd, policy, put_policy, records_of, segments, stream, wait_until

PLAY = str(Path(__file__).with_name("announce.py"))
PROGRAM = "python"
U32 = LengthRule(0, 4, True, 4)


@pytest.fixture(scope="module", autouse=True)
def _named_python():
    comm = subprocess.run([PYTHON, "-c", "print(open('/proc/self/comm').read())"], capture_output=True, text=True)
    global PROGRAM
    PROGRAM = comm.stdout.strip()


def put_lengths(run_dir: Path, *known: Announced, content: bytes | None = None) -> None:
    """As hostd does: aside, then renamed."""
    new = run_dir / "lengths.new"
    new.write_bytes(encode_lengths(known) if content is None else content)
    new.chmod(0o644)
    new.rename(run_dir / "lengths")


def service(role: int = 0) -> Service:
    return Service(PROGRAM, role, 0)


def framed(size: int, first: int = 12) -> list[str | int]:
    """A message of `size` bytes behind u32, in a write of its `first` bytes and one of the rest."""
    head = (size - 4).to_bytes(4, "big") + b"\xa5" * (first - 4)
    return [head.hex(), size - first]


def play(run_dir: Path, *messages: list[str | int], pause_s: float = 0.0, port: int = 0, **more: str):
    """(records of the sending side, proposals) of one connection."""
    with hostd(run_dir) as got:
        told = {"messages": messages, "pause_s": pause_s, "port": port}
        subprocess.run([PYTHON, PLAY, json.dumps(told)], env=environment(run_dir, **more), check=True, timeout=60)
    (run_dir / "records").unlink()
    found = records_of([datagram for datagram in got if not is_proposal(datagram)])
    proposals = [decode_proposal(datagram) for datagram in got if is_proposal(datagram)]
    sent = [record for record in found if record.role == 0]
    return sorted(sent, key=lambda record: record.flow_index), proposals


def put(run_dir: Path, mode: Mode = Mode.QCLIMB, **changes: object) -> None:
    put_policy(run_dir, policy(mode, **changes))


def header(kind: str, length: int) -> str:
    return f"PUT /a HTTP/1.1\r\nHost: b\r\n{kind}Content-Length: {length}\r\n\r\n".encode().hex()


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.QCLIMB])
def test_content_length_is_known_at_the_first_write(tmp_path, mode):
    put(tmp_path, mode)
    sent, _ = play(tmp_path, [header("", 50_000), 50_000], [header("", 20), 20], [header("", 5_000_000), 5_000_000])
    assert [(one.announced_bytes, one.announced_by) for one in sent] == [(one.size_bytes, BY_HTTP) for one in sent]
    bounds = [bool(one.flags & HAD_LENGTH_BOUND) for one in sent]
    assert bounds == ([True, False, True] if mode is Mode.QCLIMB else [False] * 3)  # the second is calm


def test_a_header_and_its_body_in_one_long_write_is_looked_at_before(tmp_path):
    put(tmp_path)
    whole = header("", 300_000)
    (one,), _ = play(tmp_path, [whole + "+100000", 200_000])
    assert (one.announced_bytes, one.first_write_bytes) == (one.size_bytes, 100_000 + len(whole) // 2)


def test_mode_pias_looks_at_nothing(tmp_path):
    put(tmp_path, Mode.PIAS)
    put_lengths(tmp_path, Announced(service(), U32, Use.IN_FORCE))
    sent, proposals = play(tmp_path, [header("", 50_000), 50_000], framed(80_000), framed(70_000))
    assert [one.announced_by for one in sent] == [0, 0, 0]
    assert proposals == []


def test_the_policy_turns_it_off(tmp_path):
    put(tmp_path, without_lengths=True)
    put_lengths(tmp_path, Announced(service(), U32, Use.IN_FORCE))
    sent, proposals = play(tmp_path, [header("", 50_000), 50_000], framed(80_000), framed(70_000))
    assert [one.announced_by for one in sent] == [0, 0, 0]
    assert proposals == []


def test_what_is_expected_to_continue_is_the_next_flows(tmp_path):
    put(tmp_path)
    with hostd(tmp_path) as got:
        code = (
            "import socket;l=socket.create_server(('127.0.0.1',0));c=socket.create_connection(l.getsockname());"
            f"s,_=l.accept();c.sendall(bytes.fromhex('{header('Expect: 100-continue' + chr(13) + chr(10), 90_000)}'));"
            "s.recv(4096);s.sendall(b'HTTP/1.1 100 Continue\\r\\n\\r\\n');c.recv(99);import threading;"
            "t=threading.Thread(target=lambda:[s.recv(1<<16) for _ in range(99)]);t.start();"
            "c.sendall(b'x'*30000);c.sendall(b'x'*60000);c.close();t.join()"
        )
        subprocess.run([PYTHON, "-c", code], env=environment(tmp_path), check=True, timeout=60)
    first, second = (one for one in records_of(got) if one.role == 0)
    assert (first.flags & CUT, second.flags & CUT) == (CUT, 0)
    assert (first.announced_bytes, second.announced_bytes) == (first.size_bytes + 90_000, 90_000)
    assert second.size_bytes == 90_000


@pytest.mark.parametrize("by", ["http", "rule"])
def test_what_a_stalled_writer_left_is_the_next_flows(tmp_path, by):
    put(tmp_path, flow_gap_us=20_000)
    put_lengths(tmp_path, Announced(service(), U32, Use.IN_FORCE))
    message = [header("", 80_000), 80_000] if by == "http" else framed(80_000)
    sent, _ = play(tmp_path, [*message[:-1], 30_000, 50_000 if by == "http" else 50_000 - 12], pause_s=0.4)
    assert all(one.flags & CUT for one in sent[:-1])
    assert not sent[-1].flags & CUT
    left = sum(one.size_bytes for one in sent)
    for one in sent:
        assert one.announced_bytes == left
        left -= one.size_bytes


def test_an_answer_to_head_has_no_body(tmp_path):
    put(tmp_path)
    (tmp_path / "file").write_bytes(bytes(90_000))
    server = (
        "import http.server,sys,functools;h=http.server.SimpleHTTPRequestHandler;h.protocol_version='HTTP/1.1';"
        "s=http.server.ThreadingHTTPServer(('127.0.0.1',0),functools.partial(h,directory=sys.argv[1]));"
        "print(s.server_port,flush=True);s.serve_forever()"
    )
    with hostd(tmp_path) as got:
        argv = [PYTHON, "-c", server, tmp_path]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(argv, env=environment(tmp_path), **pipes)
        assert process.stdout
        client = http.client.HTTPConnection("127.0.0.1", int(process.stdout.readline()))
        for method in ("HEAD", "GET", "HEAD"):
            client.request(method, "/file")
            client.getresponse().read()
        client.close()
        wait_until(lambda: len([one for one in records_of(got) if one.role == 1]) == 3)
        process.terminate()
        process.wait(60)
    sent = sorted((one for one in records_of(got) if one.role == 1), key=lambda one: one.flow_index)
    assert [one.announced_bytes for one in sent] == [one.size_bytes for one in sent]
    assert sent[0].size_bytes < 1000 < sent[1].size_bytes


def test_a_learned_rule_is_used_and_one_on_trial_is_told(tmp_path):
    put(tmp_path)
    put_lengths(tmp_path, Announced(service(), U32, Use.IN_FORCE))
    sizes = (90_000, 300, 70_000)
    sent, proposals = play(tmp_path, *map(framed, sizes))
    assert [(one.announced_bytes, one.announced_by) for one in sent] == [(size, BY_RULE) for size in sizes]
    assert sent[0].flags & HAD_LENGTH_BOUND
    put_lengths(tmp_path, Announced(service(), U32, Use.TRIAL))
    sent, more = play(tmp_path, *map(framed, sizes))
    assert [(one.announced_bytes, one.announced_by) for one in sent] == [(size, BY_TRIAL) for size in sizes]
    assert not any(one.flags & HAD_LENGTH_BOUND for one in sent)
    assert proposals + more == []


def test_messages_that_begin_in_one_write_are_walked(tmp_path):
    put(tmp_path)
    put_lengths(tmp_path, Announced(service(), U32, Use.IN_FORCE))
    small = (96).to_bytes(4, "big") + bytes(96)
    head, rest = framed(60_000)
    (one,), _ = play(tmp_path, [(small * 3).hex() + str(head), rest])
    assert one.announced_bytes == one.size_bytes == 60_300


def test_a_flow_that_nothing_announced_is_proposed_and_no_byte_of_it(tmp_path):
    put(tmp_path, Mode.OBSERVE)
    secret = b"correct horse battery staple"
    message = [((90_000 - 4).to_bytes(4, "big") + secret).hex(), 90_000 - 4 - len(secret)]
    with hostd(tmp_path) as got:
        subprocess.run(
            [PYTHON, PLAY, json.dumps({"messages": [message] * 5})], env=environment(tmp_path), check=True, timeout=60
        )
    proposals = [decode_proposal(datagram) for datagram in got if is_proposal(datagram)]
    assert proposals  # one may be lost, where another thread is sending
    for proposal in proposals:
        assert (proposal.service, proposal.size_bytes) == (service(), 90_000)
        assert U32 in proposal.candidates
    assert not any(secret[at : at + 8] in one for one in got for at in range(len(secret) - 8))


def test_types_are_told_where_they_are_asked_for(tmp_path):
    put(tmp_path, Mode.OBSERVE)
    message = [((90_000 - 4).to_bytes(4, "big") + b"\x05\xa5\x3f" + b"\xa5" * 25).hex(), 90_000 - 32]
    for asked in ([], [Announced(service(), None, Use.TRIAL)]):
        put_lengths(tmp_path, *asked)
        _, proposals = play(tmp_path, *[message] * 5)
        assert proposals
        for proposal in proposals:
            assert U32 in proposal.candidates
            assert proposal.tags == (((0, 0), (1, 1), (4, 5), (6, 63)) if asked else ())


def test_a_rule_of_a_port_goes_before_one_of_all_ports_of_the_kernels_choice(tmp_path):
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    put(tmp_path)
    wrong = LengthRule(4, 2, False, 0)
    with socket.create_server(("127.0.0.1", 0)) as free:
        chosen = free.getsockname()[1]
    outside = next(port for port in (last + 1, first - 1) if 1024 < port < 65536)
    for port in (chosen, outside):
        for known, by in (
            ([(0, U32)], BY_RULE if port == chosen else 0),
            ([(0, wrong), (port, U32)], BY_RULE),
            ([(port, U32), (0, wrong)], BY_RULE),
        ):
            put_lengths(tmp_path, *(Announced(Service(PROGRAM, 0, at), rule, Use.IN_FORCE) for at, rule in known))
            (one,), _ = play(tmp_path, framed(80_000), port=port)
            assert (one.announced_by, one.announced_bytes) == (by, 80_000 if by else 0), (port, known)


def test_a_forbidden_service_is_not_looked_at(tmp_path):
    put(tmp_path)
    put_lengths(tmp_path, Announced(service(), None, Use.FORBIDDEN))
    sent, proposals = play(tmp_path, [header("", 50_000), 50_000], framed(80_000))
    assert [one.announced_by for one in sent] == [0, 0]
    assert proposals == []


def test_another_programs_rule_is_not_ours(tmp_path):
    put(tmp_path)
    put_lengths(tmp_path, Announced(Service("other", 0, 0), U32, Use.IN_FORCE))
    (one,), _ = play(tmp_path, framed(80_000))
    assert one.announced_by == 0


@pytest.mark.parametrize("harm", ["cut", "flipped", "writable"])
def test_a_damaged_file_of_rules_is_none(tmp_path, harm):
    put(tmp_path)
    content = bytearray(encode_lengths([Announced(service(), U32, Use.IN_FORCE)]))
    if harm == "flipped":
        content[20] ^= 1
    put_lengths(tmp_path, content=bytes(content[:-1] if harm == "cut" else content))
    if harm == "writable":
        (tmp_path / "lengths").chmod(0o666)
    (one,), _ = play(tmp_path, framed(80_000))
    assert one.announced_by == 0


def test_new_rules_are_taken_up_while_a_program_runs(tmp_path):
    put(tmp_path)
    messages = [framed(80_000)] * 60
    with hostd(tmp_path) as got:
        told = json.dumps({"messages": messages, "pause_s": 0.02})
        process = subprocess.Popen([PYTHON, PLAY, told], env=environment(tmp_path))
        put_lengths(tmp_path, Announced(service(), U32, Use.IN_FORCE))
        assert process.wait(60) == 0
    sent = [one for one in records_of([one for one in got if not is_proposal(one)]) if one.role == 0]
    assert sorted(sent, key=lambda one: one.flow_index)[-1].announced_by == BY_RULE


BAD = r"""
import ctypes, os, socket, sys
l = socket.create_server(("127.0.0.1", 0)); c = socket.create_connection(l.getsockname()); s, _ = l.accept()
libc = ctypes.CDLL(None, use_errno=True)
for size in (100, 200_000):
    for bad in (8, 1 << 46, 0xFFFF800000000000):
        assert libc.send(c.fileno(), ctypes.c_void_p(bad), ctypes.c_size_t(size), 0) == -1
        assert ctypes.get_errno() == 14, ctypes.get_errno()
class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
good = ctypes.create_string_buffer(b"PUT /a HTTP/1.1", 100_000)
parts = (Part * 2)(Part(ctypes.addressof(good), 100_000), Part(1 << 46, 100_000))
libc.writev(c.fileno(), parts, 2)
def answered():
    libc.recv(s.fileno(), ctypes.c_void_p(8), ctypes.c_size_t(1 << 20), 0x20)  # MSG_TRUNC writes nowhere
    s.sendall(b"."); c.recv(1)
answered()
head = b"PUT /a HTTP/1.1\r\nContent-Length: 9\r\n\r\n"
for _ in range(8):  # kept, so that the flow before was whole in its first write
    c.sendall(head); answered()
    short = ctypes.create_string_buffer(head[:20], 20)
    parts = (Part * 2)(Part(ctypes.addressof(short), 20), Part(1 << 46, 100))
    if libc.writev(c.fileno(), parts, 2) > 0:
        answered()
parts = (Part * 2)(Part(1 << 46, 100_000), Part(ctypes.addressof(good), 100_000))
assert libc.writev(c.fileno(), parts, 2) == -1 and ctypes.get_errno() == 14
"""


def test_a_bad_pointer_stays_an_error_and_becomes_no_signal(tmp_path):
    put(tmp_path)
    put_lengths(tmp_path, Announced(service(), U32, Use.IN_FORCE))
    done = subprocess.run([PYTHON, "-c", BAD], env=environment(tmp_path), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes network namespaces")
@pytest.mark.parametrize("used", [True, False])
def test_what_is_announced_decides_the_priority_right_behind_the_first_write(tmp_path, used):
    """Header in one write, a body of 300 KB in ten: nothing but its Content-Length tells that it is long."""
    with bench(tmp_path) as two:
        put(tmp_path / "b", flow_gap_us=1_000_000, without_lengths=not used)
        put(tmp_path / "a", flow_gap_us=1_000_000)
        sink = (
            "import socket;l=socket.create_server(('198.19.250.2',7000));print('up',flush=True);c,_=l.accept();"
            "n=0\nwhile n<300000+int(__import__('sys').argv[1]): n+=len(c.recv(65536))\nc.sendall(b'.')"
        )
        head = f"PUT /a HTTP/1.1\r\nContent-Length: {300_000 if used is not None else 0}\r\n\r\n"
        source = (
            "import socket,time;c=socket.create_connection(('198.19.250.2',7000));"
            "c.setsockopt(socket.IPPROTO_TCP,socket.TCP_NODELAY,1);"
            f"c.sendall({head.encode()!r});\nfor _ in range(100): c.sendall(b'x'*3000);time.sleep(.002)\nc.recv(1)"
        )
        with two.capture("b") as pcap:
            taker = two.start(two.b, [PYTHON, "-c", sink, str(len(head))], tmp_path / "a")
            assert taker.stdout and taker.stdout.readline()
            giver = two.start(two.a, [PYTHON, "-c", source], tmp_path / "b")
            assert giver.wait(60) == 0
            assert taker.wait(60) == 0
        edges = stream(segments(pcap), to_port=7000).edges()
    assert edges[0] == (0, DSCP[0])  # the header, before anybody knew
    after = edges[1]
    if used:
        assert after == (len(head), DSCP[3])
    else:
        assert after[0] > 10_000
        assert after[1] == DSCP[1]
