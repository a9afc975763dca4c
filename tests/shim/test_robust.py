"""What an application lives through: policies and models that change or are damaged, nobody who takes records."""

import json
import os
import socket
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
from qclimb.forest import KEY_MAX, Forest, float_key, lower_key, round_down, upper_key
from qclimb.hostfile import decode_records, encode_forest, encode_policy
from qclimb.policy import Mode
from stand import LIBRARY, THRESHOLDS, hostd, policy, put_policy, records_of

TWO_FLOWS = """
import os, socket, sys, time
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
peer, _ = server.accept()
sizes = {sizes}
for size in sizes:
    client.sendall(bytes(size))
    left = size
    while left:
        left -= len(peer.recv(min(left, 65536)))
    peer.sendall(b"ok")
    assert client.recv(2, socket.MSG_WAITALL) == b"ok"
print(client.getsockname()[1], server.getsockname()[1])
{end}
"""


def application(run_dir, code, **env):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"LD_PRELOAD": str(LIBRARY), "QCLIMB_RUN": str(run_dir), **env},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.PIAS, Mode.QCLIMB])
def test_records_tell_each_flow_with_its_history(run_dir, mode):
    put_policy(run_dir, policy(mode, generation=7))
    sizes = [100, 20_000, 300, 50_000]
    with hostd(run_dir) as got:
        application(run_dir, TWO_FLOWS.format(sizes=sizes, end="client.close(); peer.close()"))
    sent = [r for r in records_of(got) if r.role == 0]
    assert [r.size_bytes for r in sent] == sizes
    assert [r.flow_index for r in sent] == [0, 1, 2, 3]
    assert [r.last_size_bytes[0] for r in sent] == [0, *sizes[:-1]]
    assert [r.first_write_bytes for r in sent] == sizes
    assert sent[3].last_size_bytes == (300, 20_000, 100, 0, 0)
    assert all(r.start_ns <= r.last_write_ns for r in sent)
    answers = [r for r in records_of(got) if r.role == 1]
    assert [r.size_bytes for r in answers] == [2] * 4
    assert len({r.connection for r in records_of(got)}) == 2


def test_records_are_not_told_twice_by_a_forked_child(run_dir):
    put_policy(run_dir, policy(Mode.PIAS))
    end = """
client.sendall(bytes(5000))
pid = os.fork()
if pid == 0:
    client.close(); peer.close()
    sys.exit(0)
os.waitpid(pid, 0)
client.close(); peer.close()
"""
    with hostd(run_dir) as got:
        application(run_dir, TWO_FLOWS.format(sizes=[100], end=end))
    assert sorted(r.size_bytes for r in records_of(got)) == [2, 100, 5000]


def test_nobody_taking_records_costs_the_application_nothing_but_the_count(run_dir):
    put_policy(run_dir, policy(Mode.PIAS))
    code = TWO_FLOWS.format(
        sizes=[100] * 30,
        end="""
inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
inbox.bind(os.environ["QCLIMB_RUN"] + "/records")
time.sleep(1.2)
client.sendall(b"x"); client.close(); peer.close()
inbox.settimeout(5)
sys.stdout.flush(); sys.stdout.buffer.write(inbox.recv(65536))
""",
    )
    out = subprocess.run(
        [sys.executable, "-c", code],
        env={"LD_PRELOAD": str(LIBRARY), "QCLIMB_RUN": str(run_dir)},
        capture_output=True,
        timeout=60,
    )
    assert out.returncode == 0, out.stderr
    batch = decode_records(out.stdout.split(b"\n", 1)[1])
    assert batch.dropped > 0


def test_a_kept_connection_has_records_again_once_a_full_socket_has_room(run_dir):
    put_policy(run_dir, policy(Mode.PIAS))
    code = TWO_FLOWS.format(
        sizes=[],
        end="""
def turns(count):
    for _ in range(count):
        client.sendall(b"request"); peer.recv(7)
        peer.sendall(b"answer"); client.recv(6)

def taken():
    try:
        while inbox.recv(65536): yield 1
    except BlockingIOError:
        pass

inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
inbox.setblocking(False)
inbox.bind(os.environ["QCLIMB_RUN"] + "/records")
turns(2000)
filled = sum(taken())
time.sleep(0.05)
turns(200)
print(filled, sum(taken()))
""",
    )
    out = application(run_dir, code)
    filled, again = map(int, out.stdout.split()[-2:])
    assert filled > 0 and again > 0


def mode_seen(run_dir, **env):
    done = application(run_dir, TWO_FLOWS.format(sizes=[50_000], end=""), QCLIMB_LOG="stderr", **env)
    return [line.split("policy ")[1] for line in done.stderr.splitlines() if "policy generation" in line]


def test_an_unmanaged_host_runs_pias_or_what_the_environment_says(tmp_path):
    nowhere = tmp_path / "nowhere"
    assert "mode=pias priorities=8" in mode_seen(nowhere)[0]
    assert "mode=observe" in mode_seen(nowhere, QCLIMB_MODE="observe")[0]
    file = tmp_path / "own"
    file.write_bytes(encode_policy(policy(Mode.QCLIMB, generation=9)))
    assert "generation=9 mode=qclimb" in mode_seen(nowhere, QCLIMB_POLICY=str(file))[0]
    assert "generation=9 mode=observe" in mode_seen(nowhere, QCLIMB_POLICY=str(file), QCLIMB_MODE="observe")[0]


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (json.dumps(policy().to_json()).encode(), "it is JSON"),
        (b"nonsense", "it is no policy"),
        (encode_policy(policy())[:-1] + b"?", "it is damaged (its checksum differs)"),
        (None, "there is no such file"),
    ],
    ids=["JSON", "nonsense", "damaged", "none"],
)
def test_an_own_policy_that_cannot_be_used_is_refused_with_a_word(tmp_path, content, word):
    file = tmp_path / "pol.json"
    if content is not None:
        file.write_bytes(content)
    done = application(tmp_path / "nowhere", TWO_FLOWS.format(sizes=[100], end=""), QCLIMB_POLICY=str(file))
    assert f"QCLIMB_POLICY={file}: {word}; expected" in done.stderr
    assert "mode pias, as if none was given" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_mode_that_is_none_is_refused_with_a_word(tmp_path):
    done = application(tmp_path / "nowhere", TWO_FLOWS.format(sizes=[100], end=""), QCLIMB_MODE="fast")
    assert "QCLIMB_MODE: expected off, observe, pias or qclimb: mode pias" in done.stderr


@pytest.mark.parametrize("stderr", ["closed", "full"])
def test_a_refusal_that_stderr_does_not_take_neither_ends_nor_holds_the_program(tmp_path, stderr):
    reader, writer = os.pipe()
    if stderr == "closed":
        os.close(reader)
    else:
        os.set_blocking(writer, False)
        with suppress(BlockingIOError):
            while True:
                os.write(writer, bytes(4096))
        os.set_blocking(writer, True)
    env = {"LD_PRELOAD": str(LIBRARY), "QCLIMB_RUN": str(tmp_path / "nowhere"), "QCLIMB_POLICY": "nowhere"}
    try:
        assert subprocess.run(["/bin/true"], env=env, stderr=writer, timeout=60).returncode == 0
    finally:
        os.close(writer)
        if stderr == "full":
            os.close(reader)


def test_a_refusal_is_said_at_the_start_alone_for_later_stderr_may_be_another_file(tmp_path, run_dir):
    put_policy(run_dir, b"nonsense")
    end = f"""
import shutil
os.close(2)
other = os.open({str(tmp_path / "other")!r}, os.O_WRONLY | os.O_CREAT)
assert other == 2
shutil.rmtree(os.environ["QCLIMB_RUN"])
time.sleep(0.25)
client.sendall(b"asks the rules")
"""
    application(run_dir, TWO_FLOWS.format(sizes=[100], end=end), QCLIMB_POLICY="nowhere", QCLIMB_MODE="fast")
    assert (tmp_path / "other").read_bytes() == b""


def test_a_managed_host_without_a_readable_policy_only_observes(run_dir):
    assert "mode=observe" in mode_seen(run_dir)[0]
    put_policy(run_dir, b"nonsense")
    assert "mode=observe" in mode_seen(run_dir)[0]


def test_the_last_good_policy_stays_when_the_file_is_damaged(run_dir):
    put_policy(run_dir, policy(generation=3))
    end = """
for wanted in (open(os.environ["GOOD"], "rb").read()[:-1], b"", bytes(800)):
    open(os.environ["QCLIMB_RUN"] + "/policy", "wb").write(wanted)
    time.sleep(0.25)
    client.sendall(bytes(30000)); peer.recv(30000, socket.MSG_WAITALL)
    peer.sendall(b"."); client.recv(1)
"""
    good = run_dir / "good"
    good.write_bytes((run_dir / "policy").read_bytes())
    done = application(run_dir, TWO_FLOWS.format(sizes=[21_000], end=end), QCLIMB_LOG="stderr", GOOD=str(good))
    assert done.stderr.count("policy generation") == 1
    assert done.stderr.count("policy file refused") == 3
    assert done.stderr.rstrip().count("dscp=43") >= 4  # still demoted at 10,000 bytes, under the last good one


def test_a_new_policy_reaches_a_running_application(run_dir):
    put_policy(run_dir, policy(generation=3))
    new = run_dir / "new"
    new.write_bytes(encode_policy(policy(generation=4, threshold_bytes=(5000, 40_000, 100_000))))
    end = """
os.rename(os.environ["NEW"], os.environ["QCLIMB_RUN"] + "/policy")
time.sleep(0.25)
client.sendall(bytes(11_000)); peer.recv(11_000, socket.MSG_WAITALL)
"""
    done = application(run_dir, TWO_FLOWS.format(sizes=[7000], end=end), QCLIMB_LOG="stderr", NEW=str(new))
    assert "policy generation=4" in done.stderr
    assert done.stderr.count("dscp=43 at=5000") == 1


def test_connections_that_waited_through_a_new_policy_are_marked_by_it(run_dir):
    """They have the DSCP that the listener had when they came, though the first of them to be accepted changes it."""
    put_policy(run_dir, policy(Mode.OBSERVE, generation=3))
    new = run_dir / "new"
    new.write_bytes(encode_policy(policy(generation=4)))
    code = """
import os, socket, time
server = socket.create_server(("127.0.0.1", 0))
clients = [socket.create_connection(server.getsockname()) for _ in range(3)]
os.rename(os.environ["NEW"], os.environ["QCLIMB_RUN"] + "/policy")
time.sleep(0.25)
peers = [server.accept()[0] for _ in clients]
for client, peer in zip(clients, peers):
    client.sendall(b"ask"); peer.recv(3); peer.sendall(b"answer"); client.recv(6)
print(*(peer.fileno() for peer in peers))
"""
    done = application(run_dir, code, QCLIMB_LOG="stderr", NEW=str(new))
    assert "policy generation=4" in done.stderr
    for fd in done.stdout.split():
        assert f"fd={fd} priority=0 dscp=47 at=0" in done.stderr


def test_options_of_the_application_are_given_back(run_dir):
    put_policy(run_dir, policy(Mode.QCLIMB))
    end = """
client.setsockopt(socket.IPPROTO_TCP, 25, 70000)
assert client.getsockopt(socket.IPPROTO_TCP, 25) == 70000
client.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 3)
sndbuf = client.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
client.setblocking(False); peer.setblocking(False)
left = bytes(900000)
while left:
    try: left = left[client.send(left):]
    except BlockingIOError: pass
    assert client.getsockopt(socket.IPPROTO_TCP, 25) == 70000
    assert client.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) >= sndbuf
    assert client.getsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY) == 3
    assert client.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) == 0
    try: peer.recv(65536)
    except BlockingIOError: time.sleep(0.001)
"""
    application(run_dir, TWO_FLOWS.format(sizes=[100], end=end))


def test_a_connection_that_is_accepted_by_an_unknown_listener_is_adopted(run_dir):
    """As under socket activation: the listener came by exec, not by socket()."""
    put_policy(run_dir, policy())
    code = """
import os, socket
server = socket.socket(fileno=int(os.environ["LISTENER"]))
client = socket.create_connection(server.getsockname()); peer, _ = server.accept()
peer.sendall(bytes(21000)); client.recv(21000, socket.MSG_WAITALL)
"""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={
                "LD_PRELOAD": str(LIBRARY),
                "QCLIMB_RUN": str(run_dir),
                "QCLIMB_LOG": "stderr",
                "LISTENER": str(listener.fileno()),
            },
            pass_fds=[listener.fileno()],
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    assert "dscp=43 at=10000" in done.stderr


def test_a_plain_peer_of_a_multipath_listener_is_served_as_tcp(run_dir):
    """MPTCP falls back: what such a listener accepts from a peer without it is a TCP socket, and it is scheduled."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).close()  # IPPROTO_MPTCP
    except OSError as error:
        pytest.skip(f"this kernel has no MPTCP: {error}")
    put_policy(run_dir, policy())
    code = """
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
server.bind(("127.0.0.1", 0)); server.listen()
client = socket.create_connection(server.getsockname()); peer, _ = server.accept()
data = bytes(range(250)) * 84
peer.sendall(data)
assert client.recv(21000, socket.MSG_WAITALL) == data
client.sendall(b"."); peer.recv(1)
peer.close(); client.close()
"""
    with hostd(run_dir) as got:
        done = application(run_dir, code, QCLIMB_LOG="stderr")
    assert "dscp=43 at=10000" in done.stderr
    assert sorted((r.role, r.size_bytes) for r in records_of(got)) == [(0, 1), (1, 21_000)]


def test_a_sendfile_to_the_end_of_the_file_proves_no_more_than_the_file_holds(run_dir):
    put_policy(run_dir, policy(Mode.QCLIMB))
    end = """
import tempfile
file = tempfile.TemporaryFile(); file.write(bytes(3000)); file.seek(0)
client.sendfile(file)  # asks for 2^30 bytes
assert len(peer.recv(3000, socket.MSG_WAITALL)) == 3000
client.close(); peer.close()
"""
    with hostd(run_dir) as got:
        application(run_dir, TWO_FLOWS.format(sizes=[], end=end))
    (record,) = (record for record in records_of(got) if record.role == 0)
    assert (record.size_bytes, record.footprint_lower_bytes) == (3000, 3000)


def two_leaves(generation, feature_id=11, threshold=1000):
    """A tree on one feature: flows up to the threshold have 100 to 900 bytes, the others 20,000 to 30,000."""
    keys = [int(lower_key(100)), int(lower_key(20_000))], [int(upper_key(900)), int(upper_key(30_000))]
    columns = [
        [0, 0, 0],
        [int(float_key(round_down(threshold))), KEY_MAX, KEY_MAX],
        [1, 1, 2],
        [0, *keys[0]],
        [0, *keys[1]],
    ]
    feature, thresholds, child, lower, upper = (np.array(column, np.int32) for column in columns)
    return Forest(generation, (feature_id,), 1, 1, feature, thresholds, child, lower, upper, np.array([0], np.int32))


def put_model(run_dir, model):
    (run_dir / "model.new").write_bytes(model if isinstance(model, bytes) else encode_forest(model))
    (run_dir / "model.new").rename(run_dir / "model")


FOREST = 4
LOW = (100, *THRESHOLDS[1:])
"""The forest is asked for flows of more than 100 bytes."""


def forecasts(run_dir, sizes, end="client.close(); peer.close()"):
    with hostd(run_dir) as got:
        application(run_dir, TWO_FLOWS.format(sizes=sizes, end=end))
    return [(r.lower_bytes, r.upper_bytes) if r.flags & FOREST else None for r in records_of(got) if r.role == 0]


def test_a_flow_gets_the_bounds_that_the_forest_foretells(run_dir):
    put_model(run_dir, two_leaves(5))
    put_policy(run_dir, policy(Mode.QCLIMB, model_generation=5, slack_bytes=1000, threshold_bytes=LOW))
    assert forecasts(run_dir, [500, 25_000, 1000, 1001]) == [(100, 900), (20_000, 30_000)] * 2


def test_the_forest_is_asked_only_for_flows_that_pass_the_first_threshold(run_dir):
    put_model(run_dir, two_leaves(5))
    put_policy(run_dir, policy(Mode.QCLIMB, model_generation=5))
    assert forecasts(run_dir, [500, THRESHOLDS[0], THRESHOLDS[0] + 1]) == [None, None, (20_000, 30_000)]


def test_the_forest_sees_the_sizes_of_earlier_flows(run_dir):
    put_model(run_dir, two_leaves(5, feature_id=2, threshold=600))
    put_policy(run_dir, policy(Mode.QCLIMB, model_generation=5, threshold_bytes=LOW))
    assert forecasts(run_dir, [700, 500, 400]) == [(100, 900), (20_000, 30_000), (100, 900)]


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        (two_leaves(4), {}),  # of another generation than the policy's
        (two_leaves(5), {"model_generation": 0}),
        (two_leaves(5), {"use_forest": False}),
        (two_leaves(5), {"mode": Mode.PIAS}),
        (encode_forest(two_leaves(5))[:-1], {}),
        (encode_forest(two_leaves(5))[:-9] + bytes(9), {}),
        (b"", {}),
    ],
    ids=["other-generation", "no-model", "unused", "pias", "short", "damaged", "empty"],
)
def test_a_model_that_does_not_belong_or_is_damaged_gives_no_bounds(run_dir, model, changes):
    put_model(run_dir, model)
    put_policy(run_dir, policy(**{"mode": Mode.QCLIMB, "model_generation": 5, "threshold_bytes": LOW, **changes}))
    assert forecasts(run_dir, [500, 25_000]) == [None, None]


def test_a_new_model_comes_with_its_policy_and_a_damaged_one_leaves_the_application_running(run_dir):
    put_model(run_dir, two_leaves(5))
    put_policy(run_dir, policy(Mode.QCLIMB, model_generation=5, threshold_bytes=LOW))
    for name, model, generation in [("m6", two_leaves(6, threshold=100), 6), ("m7", b"damaged", 7)]:
        (run_dir / name).write_bytes(model if isinstance(model, bytes) else encode_forest(model))
        (run_dir / f"p{generation}").write_bytes(
            encode_policy(policy(Mode.QCLIMB, generation=generation, model_generation=generation, threshold_bytes=LOW))
        )
    end = """
for generation in "67":
    for what, name in (("m", "model"), ("p", "policy")):
        os.rename(f"{os.environ['QCLIMB_RUN']}/{what}{generation}", f"{os.environ['QCLIMB_RUN']}/{name}")
    time.sleep(0.25)
    client.sendall(bytes(500)); peer.recv(500, socket.MSG_WAITALL)
    peer.sendall(b"."); client.recv(1)
client.close(); peer.close()
"""
    assert forecasts(run_dir, [500], end) == [(100, 900), (20_000, 30_000), None]
