"""The kernel mode's life on a host: what outlives hostd, a new version, another user of tcx, many sockets."""

import errno
import json
import shutil
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace

import pytest
from qclimb.policy import Mode
from scoped import PROGRAMS, KernelHost, cgroup, kernel_mode, send
from stand import B, environment, policy, put_policy, wait_until
from test_kernel import SIZE, static_c  # noqa: F401
from test_life import HOSTD, hostd
from test_marks import assert_demoted_late, at_packets, demoted, edges

from hostlib.hostd import bpf
from hostlib.hostd.devices import within
from hostlib.hostd.kernel import KernelMode
from hostlib.hostd.place import Place
from hostlib.hostd.scope import Scope
from hostlib.hostd.tagger import remove
from lab.fabric.netns import RUN_NETNS, entered

pytestmark = pytest.mark.fabric
RUN = HOSTD.with_name("qclimb-run")


class Bare:
    """A host whose kernel mode a real hostd keeps."""

    def __init__(self, host, group):
        self.host, self.cgroup = host, group

    start = KernelHost.start


def status_of(host):
    return json.loads((host.run_dir / "status.json").read_text())


def is_marked(a, b, program):
    seen = send(a, b, program, SIZE)
    found = edges(seen)
    if found == [(0, 0)]:
        return False
    assert found == at_packets(demoted(SIZE), seen)
    return True


def test_it_outlives_hostd_is_taken_over_and_goes_when_told(pair, tmp_path, static_c):  # noqa: F811
    host, b = pair
    put_policy(host.run_dir, policy())
    with cgroup() as group:
        a = Bare(host, group)
        first = hostd(host, tmp_path, "--kernel", str(group))
        found = status_of(host)["kernel"]
        if "does not show who writes" in found:
            pytest.skip(found)
        assert found.startswith(f"{group}; ") and "writes by " in found, found
        assert is_marked(a, b, static_c)
        wait_until(lambda: status_of(host)["waiting"] == 1)  # its record, for an orchestrator that is away
        assert status_of(host)["known"]["bytes"] == SIZE
        first.kill()
        first.wait()
        assert is_marked(a, b, static_c)
        programs = [path.name for path in (host.run_dir / "bpf").glob("kernel-*")]
        second = hostd(host, tmp_path, "--kernel", str(group))
        assert [path.name for path in (host.run_dir / "bpf").glob("kernel-*")] == programs
        wait_until(lambda: status_of(host)["waiting"] == 1)  # what ended while no hostd ran
        second.terminate()
        second.wait()
        argv = ["nsenter", f"--net=/run/netns/{host.netns}", str(HOSTD), "tagger-off", "--run-dir", str(host.run_dir)]
        assert subprocess.check_output(argv, text=True) == "the kernel mode and the tagger were taken away\n"
        assert not is_marked(a, b, static_c)
        third = hostd(host, tmp_path)
        assert status_of(host)["kernel"] == ""
        third.terminate()
        third.wait()


def test_a_new_version_takes_over_a_flow_under_way(pair, tmp_path, static_c):  # noqa: F811
    host, b = pair
    with kernel_mode(host, policy()) as a:
        build = tmp_path / "build"
        build.mkdir()
        for path in a.kernel._build.glob("*.bpf.o"):
            (build / path.name).write_bytes(path.read_bytes() + b"\n")
        size = 10_000_000
        newer = KernelMode(Place(host.run_dir), Scope((a.cgroup,)), a.tagger, build=build)

        def upgrade():
            with entered(host.netns):
                newer.follow(policy())

        before = [path.name for path in (host.run_dir / "bpf").glob("kernel-*")]
        timer = threading.Timer(0.5, upgrade)
        timer.start()
        seen = send(a, b, static_c, size, chunk=10_000)
        timer.join()
        assert not newer.problem
        assert [path.name for path in (host.run_dir / "bpf").glob("kernel-*")] != before
        assert_demoted_late(seen, size)
        assert [record.size_bytes for record in a.told(1)] == [size]
        newer.close()


def test_a_cgroup_that_goes_takes_nothing_from_another_and_is_served_once_it_is_back(pair, static_c):  # noqa: F811
    host, b = pair
    with kernel_mode(host, policy()) as a:
        service = a.cgroup.with_name(f"{a.cgroup.name}-service")
        service.mkdir()
        a.kernel.close()
        a.kernel = KernelMode(Place(host.run_dir), Scope((service, a.cgroup)), a.tagger)
        try:
            a.follow(policy())
            assert a.kernel.cgroups == (str(service), str(a.cgroup))
            service.rmdir()
            a.follow(policy(generation=2))
            assert not a.kernel.problem
            assert a.kernel.status.startswith(f"{a.cgroup} (not there: {service}); ")
            assert a.kernel.cgroups == (str(a.cgroup),)
            assert is_marked(a, b, static_c)
            service.mkdir()
            a.follow(policy(generation=2))
            assert is_marked(replace(a, cgroup=service), b, static_c)
        finally:
            with suppress(OSError):
                service.rmdir()


def test_without_any_of_its_cgroups_the_mode_is_off_until_one_is_there(pair):
    host, _ = pair
    with kernel_mode(host, policy()) as a:
        nowhere = a.cgroup.with_name("qckernel-nowhere")
        kernel = KernelMode(Place(host.run_dir), Scope((nowhere,)), a.tagger)
        kernel.follow(policy())
        assert kernel.problem == f"cgroup {nowhere}: not there; expected a directory of cgroup v2"


def test_a_program_that_lets_none_stand_beside_it_is_named_and_so_is_what_is_no_cgroup(pair, tmp_path):
    host, _ = pair
    with kernel_mode(host, policy()) as a, cgroup() as other:
        program = next((host.run_dir / "bpf").glob("kernel-*/scope"))
        subprocess.run(["bpftool", "cgroup", "attach", other, "sock_ops", "pinned", program], check=True)
        for directory, said in ((other, "lets no other stand beside it"), (tmp_path, "a directory of cgroup v2")):
            kernel = KernelMode(Place(host.run_dir), Scope((directory,)), a.tagger)
            with entered(host.netns):
                kernel.follow(policy())
            assert f"cgroup {directory}" in kernel.problem
            assert said in kernel.problem
            kernel.close()
        subprocess.run(["bpftool", "cgroup", "detach", other, "sock_ops", "pinned", program], check=True)


@pytest.fixture
def passes(tmp_path):
    """Another's object that ends packets' way."""
    made = tmp_path / "passes.bpf.o"
    subprocess.run(
        ["clang", "-O2", "-g", "-target", "bpf", *_include(), "-c", "-o", made, PROGRAMS / "passes.bpf.c"], check=True
    )
    return made


def _include():
    multiarch = subprocess.check_output(["gcc", "-print-multiarch"], text=True).strip()
    return ["-isystem", f"/usr/include/{multiarch}"]


def test_another_user_of_tcx_does_not_starve_it(pair, passes, static_c):  # noqa: F811
    host, b = pair
    root = host.run_dir / "bpf"
    bpf.load(passes, root, root / "theirs")
    with entered(host.netns):
        index = socket.if_nametoindex("e0")
    within(
        RUN_NETNS / host.netns,
        lambda: bpf.join_device(root / "theirs" / "passes", index, "egress", root / "theirs" / "link"),
    )
    with kernel_mode(host, policy()) as a:
        assert is_marked(a, b, static_c)
    assert bpf.device_of(root / "theirs" / "link") == index


@pytest.mark.parametrize("has_tcx", [True, False])
@pytest.mark.parametrize("kind", ["all", "ip"])
def test_a_classifier_at_clsact_goes_on_beside_it(pair, passes, static_c, monkeypatch, has_tcx, kind):  # noqa: F811
    host, b = pair
    if not has_tcx:
        monkeypatch.setattr(bpf, "join_device", refuse)
    tc = ["ip", "netns", "exec", host.netns, "tc"]
    subprocess.run([*tc, "qdisc", "add", "dev", "e0", "clsact"], check=True)
    theirs = ["dev", "e0", "egress", "protocol", kind, "pref", "1"]
    subprocess.run([*tc, "filter", "add", *theirs, "bpf", "da", "obj", passes, "sec", "tc"], check=True)
    late = [["dev", "e0", direction, "pref", "4747"] for direction in ("egress", "ingress")]
    subprocess.run([*tc, "filter", "add", *late[0], "handle", "1", "bpf", "da", "obj", passes, "sec", "tc"], check=True)
    with kernel_mode(host, policy()) as a:
        comes_late = not has_tcx and kind != "all"
        assert is_marked(a, b, static_c) != comes_late
        assert ("by clsact behind another's filter of preference 1" in a.tagger.status) == comes_late
        (program,) = (host.run_dir / "bpf").glob("programs-*/ingress")
        before = ["handle", "1", "bpf", "da", "object-pinned", program]
        subprocess.run(
            ["nsenter", f"--net=/run/netns/{host.netns}", "tc", "filter", "add", *late[1], *before], check=True
        )
    left = subprocess.check_output([*tc, "filter", "show", *theirs], text=True)
    assert "passes" in left and "egress" not in left
    left = [subprocess.check_output([*tc, "filter", "show", *each], text=True) for each in late]
    assert "passes" in left[0], "another's, though it is where an older hostd's were"
    assert not left[1], "an older hostd's"


def test_ten_thousand_sockets_are_served(pair):
    with kernel_mode(pair[0], policy()) as a:
        many = a.start(sys.executable, PROGRAMS / "many.py", "5000", stdin=subprocess.PIPE)
        assert many.stdout.readline() == "open\n"
        assert a.kernel.counts()["sockets"] == 10_000
        many.communicate()
        assert many.returncode == 0
        # Where many small flows end at once, one record tells of several; the last ones wait for it.
        assert {record.size_bytes for record in a.told(4_000)} == {100}
        assert len(a.records) <= a.flows <= 5_000
        assert a.kernel.counts() == {"flows": a.flows, "dropped": 0, "sockets": 10_000}


@pytest.mark.parametrize("has_tcx", [True, False])
def test_a_container_is_reached_in_its_own_namespace(pair, static_c, monkeypatch, has_tcx):  # noqa: F811
    """hostd lives elsewhere: what has no device of its own namespace is found by where the cgroup's processes live."""
    host, b = pair
    if not has_tcx:
        monkeypatch.setattr(bpf, "join_device", refuse)
    if not shutil.which("sleep"):
        pytest.skip("needs sleep")
    with kernel_mode(b, policy(), devices=()) as elsewhere:
        a = KernelHost(host, elsewhere.cgroup, elsewhere.tagger, elsewhere.kernel)
        sleeper = a.start("sleep", "600")
        try:
            wait_until(lambda: (a.cgroup / "cgroup.procs").read_text())
            assert not is_marked(a, b, static_c)
            with entered(b.netns):
                a.tagger.follow(policy())
            assert is_marked(a, b, static_c)
            assert ("by clsact (this kernel has no tcx" in a.tagger.status) != (has_tcx and bpf_has_tcx(a)), (
                a.tagger.status
            )
            with entered(b.netns):
                remove(Place(b.run_dir))
            assert not is_marked(a, b, static_c)
        finally:
            sleeper.kill()
            sleeper.wait()


SENDS = """
import socket, sys
for _ in range(int(sys.argv[3])):
    with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as to:
        to.sendall(bytes(1000))
        to.recv(1)
"""
TAKES = """
import socket, sys
with socket.create_server((sys.argv[1], 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    while True:
        with listener.accept()[0] as one:
            one.recv(1000, socket.MSG_WAITALL)
"""


@pytest.mark.parametrize("before", [[], ["unshare", "--pid", "--fork"]])
def test_a_flow_that_the_library_tells_of_too_counts_once_in_containers_as_well(pair, tmp_path, before):
    """In mode observe both find it. A process of a container has another number there."""
    host, b = pair
    put_policy(host.run_dir, policy(Mode.OBSERVE))
    taker = b.start([sys.executable, "-c", TAKES, B])
    port = taker.stdout.readline().strip()
    with cgroup() as group:
        daemon = hostd(host, tmp_path, "--kernel", str(group))
        if not status_of(host)["kernel_cgroups"]:
            pytest.skip(status_of(host)["kernel"])

        def flows() -> int:
            return status_of(host)["known"]["flows"]

        a, words = Bare(host, group), [sys.executable, "-c", SENDS, B, port]
        assert a.start(*before, *words, "5", env=environment(host.run_dir)).wait(60) == 0
        wait_until(lambda: flows() >= 5)
        assert a.start(*words, "2").wait(60) == 0  # bare: the kernel mode alone tells of it, after what came before
        wait_until(lambda: flows() >= 7)
        assert flows() == 7
        daemon.terminate()
        assert daemon.wait(60) == 0
    taker.kill()
    taker.wait()


def refuse(*_):
    """As a kernel before 6.6 answers."""
    raise bpf.BpfError("no tcx", errno.EINVAL)


def bpf_has_tcx(a):
    """Whether links of tcx were made."""
    return any((a.host.bench.path / "b" / "bpf" / "links").glob("[0-9]*-egress"))


def test_status_tells_who_serves_each_program_and_run_says_so(pair, tmp_path, static_c):  # noqa: F811
    host, _ = pair
    put_policy(host.run_dir, policy())
    listens = "import socket; s = socket.create_server(('127.0.0.1', 0)); print('up', flush=True); input()"
    with cgroup() as group, cgroup() as other:
        daemon = hostd(host, tmp_path, "--kernel", str(group), "--tagger-dev", "e0")
        if not status_of(host)["kernel_cgroups"]:
            pytest.skip(status_of(host)["kernel"])
        argv = [sys.executable, "-c", listens]
        started = [
            Bare(host, group).start(*argv, stdin=subprocess.PIPE),
            Bare(host, other).start(*argv, stdin=subprocess.PIPE),
            Bare(host, other).start(*argv, stdin=subprocess.PIPE, env=environment(host.run_dir)),
        ]
        try:
            assert [program.stdout.readline() for program in started] == ["up\n"] * 3
            told = json.loads(output([HOSTD, "status", "--json", "--programs", "--run-dir", host.run_dir]))["programs"]
            by = {pid: (found["by"], found["why"]) for found in told for pid in found["pids"]}
            assert by[started[0].pid] == ("kernel", "its cgroup is opted in")
            assert by[started[1].pid][0] == "not at all"
            assert by[started[1].pid][1].startswith("libqclimb.so is not loaded, and its cgroup /qckernel")
            assert by[started[2].pid] == ("library", "libqclimb.so is loaded")
            table = output([HOSTD, "status", "--programs", "--run-dir", host.run_dir])
            assert "its cgroup is opted in" in table
        finally:
            for program in started:
                program.communicate()
        run = [RUN, "--run-dir", host.run_dir, "--", *static_c]
        said = Bare(host, group).start(*run, stderr=subprocess.PIPE)
        assert "the kernel mode of this host serves it" in said.communicate()[1]
        assert said.returncode == 2  # send's own: it was run, without words
        daemon.terminate()
        daemon.wait()


def output(argv):
    return subprocess.check_output(list(map(str, argv)), text=True)
