"""hostd as its package's unit starts it: with that unit's capabilities, in a mount namespace of its own."""

import re
import subprocess
from pathlib import Path

import pytest
from scoped import cgroup
from stand import policy, put_policy, wait_until
from test_kernel import static_c  # noqa: F401
from test_kernel_life import Bare, is_marked, status_of
from test_life import HOSTD

from lab.fabric import cgroups

pytestmark = pytest.mark.fabric
UNIT = Path(__file__).parents[2] / "packaging/debian/qclimb-host.qclimb-hostd.service"


def settings(name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)


def started_as_the_unit_does(host, tmp_path, group, leave_out: str = "") -> subprocess.Popen:
    """Its ExecStartPre in this mount namespace instead of the first process's, hostd in one that hands nothing back, as
    ProtectSystem= makes it."""
    [before], [capabilities] = settings("ExecStartPre"), settings("CapabilityBoundingSet")
    first = "+-/usr/bin/nsenter --mount=/proc/1/ns/mnt /bin/sh -c '"
    assert before.startswith(first)
    script = before.removeprefix(first).removesuffix("'").replace("/run/qclimb", str(host.run_dir))
    subprocess.run(["/bin/sh", "-c", script], check=True)
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text("nothing\n")
    kept = ",".join(
        ["-all", *(f"+{name.removeprefix('CAP_').lower()}" for name in capabilities.split() if name != leave_out)]
    )
    argv = ["nsenter", f"--net=/run/netns/{host.netns}", "unshare", "--mount", "--propagation", "slave"]
    argv += ["setpriv", f"--bounding-set={kept}", "--no-new-privs", str(HOSTD), "--name", host.netns]
    argv += ["--orchestrator", "http://127.0.0.1:9", "--token-file", str(token), "--run-dir", str(host.run_dir)]
    daemon = subprocess.Popen([*argv, "--kernel", str(group), "--tagger-dev", "e0"], stderr=subprocess.DEVNULL)
    wait_until(lambda: (host.run_dir / "status.json").exists() and status_of(host)["kernel"], 120)
    return daemon


def test_what_it_keeps_outlives_it_and_is_found_from_outside(pair, tmp_path, static_c):  # noqa: F811
    host, b = pair
    put_policy(host.run_dir, policy())
    subprocess.run(["umount", host.run_dir / "bpf"], check=True)  # the bench's
    with cgroup() as group:
        daemon = started_as_the_unit_does(host, tmp_path, group)
        a = Bare(host, group)
        try:
            found = status_of(host)
            if "does not show who writes" in found["kernel"]:
                pytest.skip(found["kernel"])
            assert found["tagger"].startswith("at e0"), found
            assert (host.run_dir / "bpf" / "flows").exists(), "libraries look for it"
            assert is_marked(a, b, static_c)
        finally:
            daemon.kill()
            daemon.wait()
        assert is_marked(a, b, static_c)
        argv = ["nsenter", f"--net=/run/netns/{host.netns}", str(HOSTD), "tagger-off", "--run-dir", str(host.run_dir)]
        assert subprocess.check_output(argv, text=True) == "the kernel mode and the tagger were taken away\n"
        assert not is_marked(a, b, static_c)


def status_with(host, tmp_path, group, leave_out: str = "") -> tuple[str, list[int]]:
    """What it tells of the tagger once it looked, beside containers of two users in the cgroup, and where it is."""
    drop = "setpriv --reuid=65534 --regid=65534 --clear-groups"
    others = []
    try:
        for before in ("", drop):
            script = f"ip link add e1 type bridge && echo up && exec {before} sleep 600"
            argv = cgroups.joined(["unshare", "--net", "sh", "-c", script], group)
            others.append(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True))
            assert others[-1].stdout.readline() == "up\n"
        daemon = started_as_the_unit_does(host, tmp_path, group, leave_out)
        others.append(daemon)
        links = host.run_dir / "bpf" / "links"
        numbers = [Path(f"/proc/{other.pid}/ns/net").stat().st_ino for other in others[:2]]
        return status_of(host)["tagger"], [len(list(links.glob(f"{number}-*"))) for number in numbers]
    finally:
        for process in others:
            process.kill()
            process.wait()


def test_it_reaches_containers_of_any_user_and_without_the_right_to_says_so(pair, tmp_path):
    host, _ = pair
    put_policy(host.run_dir, policy())
    with cgroup() as group:
        status, reached = status_with(host, tmp_path, group)
        assert reached == [2, 2], status
        assert "left as they are" not in status
        (host.run_dir / "status.json").unlink()
        status, _ = status_with(host, tmp_path, group, leave_out="CAP_SYS_PTRACE")
        assert "left as they are" in status
        assert "CAP_SYS_PTRACE" in status
