"""The tagger's life on a host: who may use it, what outlives hostd, and what is said where it can't be had."""

import json
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hosts import talk
from stand import DSCP, assert_demoted, policy, put_policy, wait_until

from hostlib.hostd import tagger as tagger_module
from hostlib.hostd.place import Place
from hostlib.hostd.tagger import Tagger, remove
from lab.fabric.netns import entered

pytestmark = pytest.mark.fabric
SIZE = 250_000
HOSTD = Path(sys.executable).with_name("qclimb-hostd")


def hostd(host, tmp_path, *options):
    """hostd in the host's namespace but not behind `ip netns exec`, far from any orchestrator; up once it wrote."""
    token = tmp_path / "token"
    if not token.exists():
        token.touch(0o600)
        token.write_text("nothing\n")
    status = host.run_dir / "status.json"
    status.unlink(missing_ok=True)
    argv = ["nsenter", f"--net=/run/netns/{host.netns}", str(HOSTD), "--name", host.netns]
    argv += ["--orchestrator", "http://127.0.0.1:9", "--token-file", str(token), "--run-dir", str(host.run_dir)]
    process = subprocess.Popen([*argv, *options], stderr=subprocess.DEVNULL)
    wait_until(status.exists)
    return process


def status_of(host):
    return json.loads((host.run_dir / "status.json").read_text())["tagger"]


def is_tagged(pair):
    """What the library marks, its log tells."""
    log = pair[0].run_dir / "source.log"
    log.unlink(missing_ok=True)
    seen, _ = talk(*pair, size=SIZE, env={"QCLIMB_LOG": str(log)})
    assert_demoted(seen.edges())
    assert seen.edges()[-1][1] == DSCP[-1]
    return f" dscp={DSCP[-1]} " not in log.read_text()


def test_it_outlives_hostd_is_taken_over_and_goes_when_told(pair, tmp_path):
    a, _ = pair
    put_policy(a.run_dir, policy())
    first = hostd(a, tmp_path, "--tagger-dev", "e0")
    assert status_of(a).startswith("at e0, filter off"), status_of(a)  # PIAS needs none
    assert is_tagged(pair)
    first.kill()
    first.wait()
    assert is_tagged(pair)
    inode = (a.run_dir / "bpf" / "flows").stat().st_ino
    second = hostd(a, tmp_path, "--tagger-dev", "e0")
    assert (a.run_dir / "bpf" / "flows").stat().st_ino == inode
    assert is_tagged(pair)
    second.terminate()
    second.wait()
    argv = ["nsenter", f"--net=/run/netns/{a.netns}", str(HOSTD), "tagger-off", "--run-dir", str(a.run_dir)]
    assert subprocess.check_output(argv, text=True) == "the tagger was taken away\n"
    assert not is_tagged(pair)
    third = hostd(a, tmp_path)
    assert status_of(a) == ""
    third.terminate()
    third.wait()


def test_a_new_policy_reaches_the_kernel(pair):
    a, b = pair
    tagger = a.tagger(policy())
    later = policy(generation=2, threshold_bytes=(20_000, 60_000, 120_000))
    put_policy(a.run_dir, later)
    tagger.follow(later)
    seen, _ = talk(a, b, size=SIZE)
    assert [at // 10_000 for at, _ in seen.edges()] == [0, 2, 6, 12]


def test_a_connection_goes_on_by_the_library_when_the_tagger_goes(pair, tmp_path):
    a, b = pair
    a.tagger(policy())
    pause = tmp_path / "pause"

    def take_away():
        wait_until(pause.exists)
        with entered(a.netns):
            remove(Place(a.run_dir))
        time.sleep(0.25)  # the library looks for it every 200 ms
        pause.unlink()

    thread = threading.Thread(target=take_away)
    thread.start()
    log = a.run_dir / "source.log"
    seen, _ = talk(a, b, size=SIZE, flows=2, pause=str(pause), env={"QCLIMB_LOG": str(log)})
    thread.join()
    for start in (0, SIZE):
        assert_demoted([(at, dscp) for at, dscp in seen.edges() if start <= at < start + SIZE], start=start)
    first, second = log.read_text().split("flow starts")[1:3]
    assert [f" dscp={DSCP[-1]} " in flow for flow in (first, second)] == [False, True]


OPEN = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
path = ctypes.create_string_buffer(sys.argv[1].encode())
attributes = ctypes.create_string_buffer(128)
ctypes.memmove(attributes, ctypes.byref(ctypes.c_uint64(ctypes.addressof(path))), 8)
print(libc.syscall(321, 7, attributes, 128) >= 0)
"""


def test_only_root_and_the_group_may_leave_rules(pair, monkeypatch):
    if os.uname().machine != "x86_64":
        pytest.skip("the number of bpf(2) is x86-64's here")
    monkeypatch.setattr(tagger_module, "GROUP", "games")
    a, _ = pair
    a.tagger(policy())
    flows = a.run_dir / "bpf" / "flows"
    assert stat.S_IMODE(flows.stat().st_mode) == 0o660
    assert stat.S_IMODE((a.run_dir / "bpf").stat().st_mode) == 0o755
    for path in a.run_dir.parents:
        if path.is_relative_to("/tmp") and path != Path("/tmp"):
            path.chmod(path.stat().st_mode | 0o011)

    def opens(group, name):
        drop = ["setpriv", "--reuid=65534", f"--regid={group}", "--clear-groups"]
        argv = [*drop, "/usr/bin/python3", "-c", OPEN, str(a.run_dir / "bpf" / name)]
        return subprocess.check_output(argv, text=True).strip() == "True"

    group = flows.stat().st_gid
    assert opens(group, "flows")
    assert not opens(65534, "flows")
    assert not opens(group, "policy")


def test_without_the_group_only_root_has_it_and_the_status_says_so(pair, monkeypatch):
    monkeypatch.setattr(tagger_module, "GROUP", "no-such-group")
    a, _ = pair
    tagger = a.tagger(policy())
    assert stat.S_IMODE((a.run_dir / "bpf" / "flows").stat().st_mode) == 0o600
    assert tagger.status.endswith("there is no group no-such-group: for root's programs only")


def test_without_the_object_the_library_goes_on_and_the_status_says_why(pair, tmp_path):
    a, _ = pair
    put_policy(a.run_dir, policy())
    missing = tmp_path / "tagger.bpf.o"
    tagger = Tagger(Place(a.run_dir), ("e0",), object_file=missing)
    with entered(a.netns):
        tagger.follow(policy())
    assert tagger.status.startswith(f"off: {missing}: No such file or directory; expected what `make")
    assert not is_tagged(pair)


def test_what_is_no_device_or_no_object_is_named(pair, tmp_path):
    a, _ = pair
    broken = tmp_path / "tagger.bpf.o"
    broken.write_bytes(b"nothing")
    for devices, file, word in ((("e7",), tagger_module.OBJECT, "e7"), (("e0",), broken, "tagger.bpf.o")):
        tagger = Tagger(Place(a.run_dir), devices, object_file=file)
        with entered(a.netns):
            tagger.follow(policy())
        assert tagger.status.startswith("off: ")
        assert word in tagger.problem


def test_a_frame_with_a_vlan_tag_is_read(pair):
    a, _ = pair
    a.tagger(policy())
    program = next((a.run_dir / "bpf").glob("programs-*/egress"))
    syn = bytes([0, 7, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x02, 0, 0, 0, 0, 0, 0]) + bytes(100)

    def known():
        dump = ["bpftool", "-j", "map", "dump", "pinned", str(a.run_dir / "bpf" / "paths")]
        return len(json.loads(subprocess.check_output(dump)))

    for n, tags in enumerate((b"", b"\x81\x00\x00\x05", b"\x88\xa8\x00\x05\x81\x00\x00\x06")):
        frame = a.run_dir / "frame"
        ip = bytes([0x45, DSCP[2] << 2, 0, 140, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, n, 10, 0, 1, 0])
        frame.write_bytes(bytes(12) + tags + b"\x08\x00" + ip + syn)
        subprocess.run(["bpftool", "prog", "run", "pinned", str(program), "data_in", str(frame)], check=True)
        assert known() == n + 1
