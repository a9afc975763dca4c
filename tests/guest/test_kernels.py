"""Kernels other than this machine's, tried: the kernel mode's tests and the fabric's in a virtual machine of each."""

import compileall
import functools
import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from guest import ROOT, Guest, GuestError, Run, needs, package
from telling import BEGAN, PASSED

from lab.build import make

GUESTS = ThreadPoolExecutor(2)
TIMEOUT_S = 1800.0
"""Of a whole guest, one a room; that of each test in it is TEST_TIMEOUT_S."""
pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(TIMEOUT_S + 120),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the guest's root reads this machine's files"),
]
TEST_TIMEOUT_S = 600
COMPILED = (
    "hostlib",
    "lab",
    "gnmi-models",
    "tests/contract",
    "tests/guest",
    "tests/lab/fabric",
    "tests/shim",
    "tests/tagger",
)
"""To compile a module costs the guest as much as to import ten."""
KERNEL = (
    "test_a_static_program_is_demoted_at_the_packet_of_each_threshold[250000-198.19.250.2]",
    "test_a_static_program_is_demoted_at_the_packet_of_each_threshold[250000-fd00:250::2]",
    "test_a_kept_connection_carries_a_flow_for_each_turn",
    "test_nobody_outside_the_cgroup_is_touched",
    "test_the_library_beside_it_tells_and_does_not_mark",
)
CLIMBS = (
    "test_the_forests_bounds_are_those_of_user_space",
    "test_one_write_climbs_towards_any_receiver_and_is_not_sent_again",
)
LENGTHS = (
    "test_messages_after_turns_are_read_and_what_is_left_after_a_pause_is_known",
    "test_of_others_nothing_is_known[changes0]",
)
LIFE = (
    "test_it_outlives_hostd_is_taken_over_and_goes_when_told",
    "test_a_classifier_at_clsact_goes_on_beside_it[all-True]",
    "test_a_container_is_reached_in_its_own_namespace[False]",
)
END = tuple(f"test_the_last_acks_go_first_though_no_socket_is_left[{to}]" for to in ("198.19.250.2", "fd00:250::2"))
SOCKETS = (
    "test_a_static_program_is_demoted_at_the_packet_of_each_threshold[250000-198.19.250.2]",
    "test_a_static_program_is_demoted_at_the_packet_of_each_threshold[250000-fd00:250::2]",
    "test_sockets_go_back_to_what_the_application_had_as_the_mode_goes[own0-198.19.250.2]",
    "test_sockets_go_back_to_what_the_application_had_as_the_mode_goes[own1-fd00:250::2]",
    "test_ecn_bits_and_checksums_stay_right[198.19.250.2]",
)
UNMARKED = ("test_it_names_ipv6_sockets_to_ipv4_peers_where_the_kernel_leaves_them_unmarked",)
WINDOWS = (
    "test_a_later_task_has_the_least_window_until_the_first_one_is_done",
    "test_windows_are_the_kernels_again_once_the_policy_no_longer_asks",
    "test_windows_are_the_kernels_again_once_the_mode_is_taken_away",
)
DCTCP = ("test_with_marks_the_queue_stays_near_the_mark_and_without_it_fills",)
FABRIC = (
    "test_every_host_reaches_every_other",
    "test_the_order_of_service_follows_the_program",
    "test_a_queue_with_wred_marks_ecn_and_only_for_those_who_ask",
)


TESTS = {
    "tagger": (
        ("tagger/test_kernel.py", KERNEL),
        ("tagger/test_kernel_climbs.py", CLIMBS),
        ("tagger/test_kernel_lengths.py", LENGTHS),
        ("tagger/test_kernel_life.py", LIFE),
        ("tagger/test_kernel_end.py", END),
        ("tagger/test_kernel_sockets.py", SOCKETS),
        ("tagger/test_kernel_unmarked.py", UNMARKED),
        ("tagger/test_kernel_windows.py", WINDOWS),
    ),
    "lab": (("lab/fabric/test_fabric.py", FABRIC), ("lab/fabric/test_dctcp.py", DCTCP)),
}


def wanted(room: str) -> list[str]:
    """As pytest names them."""
    return [f"tests/{file}::{test}" for file, names in TESTS[room] for test in names]


def command(room: str) -> str:
    """What is run in the guest: one pytest, without what it need not load or rewrite."""
    tests = " ".join(f"'{test}'" for test in wanted(room))
    return "\n".join(
        (
            "export HOME=/run PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            f"cd {ROOT}; ip link set lo up",
            f"export PYTHONPATH={ROOT}/tests/guest:{ROOT}/tests/tagger:{ROOT}/tests/shim PYTHONDONTWRITEBYTECODE=1",
            "export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1",
            f"exec {sys.executable} -m pytest -v -p telling -p pytest_timeout --timeout={TEST_TIMEOUT_S} "
            f"-p no:cacheprovider --assert=plain --confcutdir=tests/tagger {tests}",
        )
    )


@dataclass(frozen=True)
class Tried:
    """The tests of a room in a guest."""

    room: str
    run: Run

    @property
    def features(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.run.files["features.json"])
        return found

    def failed(self) -> list[str]:
        """What did not pass, and why: failed, skipped, or not ended when the guest had to."""
        told: dict[str, str] = {}
        for line in self.run.files.get("results", "").splitlines():
            of = json.loads(line)
            if of["outcome"] != BEGAN:
                told[of["test"]] = "" if of["outcome"] == PASSED else f"{of['outcome']}: {of['why'][-2000:]}"
            else:
                told[of["test"]] = "did not end"
        return [f"{test}: {why}" for test in wanted(self.room) if (why := told.get(test, "did not begin"))]


@functools.cache
def built() -> None:
    """What the guests load, built by this machine, once."""
    failure = make(ROOT / "hostlib", "lib", "tagger")
    assert not failure, failure
    for folder in COMPILED:
        compileall.compile_dir(ROOT / folder, quiet=2)


@functools.cache
def begun(suite: str, room: str) -> Future[Run]:
    """A guest of its own; two run at a time, for emulation takes one core each."""
    needs()
    kernel = package(suite)
    built()
    return GUESTS.submit(Guest(kernel).run, command(room), TIMEOUT_S)


@pytest.fixture(scope="module", params=["", "backports"], ids=["of-the-release", "of-backports"])
def tried(request) -> Callable[[str], Tried]:
    """By room. The guests of all kernels that were asked for begin together."""
    suites = [item.callspec.params["tried"] for item in request.session.items if item.path == request.path]

    def in_guest(room: str) -> Tried:
        for suite in dict.fromkeys([request.param, *suites]):
            try:
                begun(suite, room)
            except GuestError as error:
                if suite == request.param:
                    pytest.skip(str(error))
        run = begun(request.param, room).result()
        assert "features.json" in run.files, f"no test began in {TIMEOUT_S} s: {run.output}{run.console}"
        return Tried(room, run)

    return in_guest


def test_the_kernel_mode_finds_and_marks_flows_there(tried):
    there = tried("tagger")
    assert there.failed() == [], there.run.output


def test_the_fabrics_ports_serve_strictly_there(tried):
    there = tried("lab")
    assert there.failed() == [], there.run.output
    assert there.features["fabric"] == "ets"


def test_status_names_what_the_kernel_lacks(tried):
    found = tried("lab").features
    version = tuple(int(part) for part in str(found["kernel"]).split("+")[0].split("-")[0].split(".")[:2])
    assert version >= (5, 17)
    assert ("no tcx" in str(found["tagger"])) == (version < (6, 6)), found
    assert ("no tracepoint tcp_sendmsg_locked" in str(found["kernel_mode"])) == (version < (6, 16)), found
    assert "off" not in str(found["kernel_mode"]), found
