"""Kernels other than this machine's, tried: the kernel mode's tests and the fabric's in a virtual machine of each."""

import json
import os
import sys
from dataclasses import dataclass
from xml.etree import ElementTree

import pytest
from guest import ROOT, Guest, GuestError, Run, needs, package

from lab.build import make

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the guest's root reads this machine's files"),
    pytest.mark.skipif(
        "QCLIMB_GUEST" not in os.environ, reason="takes ten minutes and more by emulation: set QCLIMB_GUEST=1"
    ),
]
TIMEOUT_S = 540.0
KERNEL = (
    "test_a_static_program_is_demoted_at_the_packet_of_each_threshold[250000-198.19.250.2]",
    "test_a_static_program_is_demoted_at_the_packet_of_each_threshold[250000-fd00:250::2]",
    "test_a_kept_connection_carries_a_flow_for_each_turn",
    "test_nobody_outside_the_cgroup_is_touched",
    "test_the_library_beside_it_tells_and_does_not_mark",
)
CLIMBS = (
    "test_the_forests_bounds_are_those_of_user_space",
    "test_one_write_climbs_towards_a_receiver_that_filters",
    "test_towards_others_it_is_served_as_pias_would[198.19.251.0/24]",
)
LIFE = (
    "test_it_outlives_hostd_is_taken_over_and_goes_when_told",
    "test_a_classifier_at_clsact_goes_on_beside_it",
    "test_a_container_is_reached_in_its_own_namespace[False]",
)
FABRIC = (
    "test_every_host_reaches_every_other",
    "test_a_first_served_flow_overtakes_bulk_that_is_last_served",
    "test_the_order_of_service_follows_the_program",
    "test_a_queue_with_wred_marks_ecn_and_only_for_those_who_ask",
)


def command() -> str:
    """What is run in the guest: each result goes to the directory that it shares with this machine. One pytest without
    what it need not load: to start it takes a minute there."""
    named = (("tagger/test_kernel.py", KERNEL), ("tagger/test_kernel_climbs.py", CLIMBS))
    named += (("tagger/test_kernel_life.py", LIFE), ("lab/fabric/test_fabric.py", FABRIC))
    tests = " ".join(f"'tests/{file}::{test}'" for file, names in named for test in names)
    return "\n".join(
        (
            "export HOME=/run PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            f"cd {ROOT}; ip link set lo up; export PYTHONPATH={ROOT}/tests/tagger:{ROOT}/tests/shim",
            f"{sys.executable} tests/guest/features.py > /run/out/features.json",
            "export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1",
            f"{sys.executable} -m pytest -v -p pytest_timeout -p no:cacheprovider --durations=0 "
            f"--junitxml=/run/out/tests.xml {tests}",
        )
    )


@dataclass(frozen=True)
class Tried:
    run: Run

    @property
    def features(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.run.files["features.json"])
        return found

    def failed(self, room: str, expected: int) -> list[str]:
        """What did not pass of the tests in `room`, or was skipped; and where fewer ran than expected, that."""
        cases = ElementTree.fromstring(self.run.files["tests.xml"]).iter("testcase")
        ours = [case for case in cases if f".{room}." in str(case.get("classname"))]
        bad = [
            f"{case.get('name')}: {part.get('message')}" for case in ours for part in case if part.tag != "properties"
        ]
        return bad if len(ours) >= expected else [*bad, f"{len(ours)} tests ran; expected {expected}"]


@pytest.fixture(scope="module", params=["", "backports"], ids=["of-the-release", "of-backports"])
def tried(request) -> Tried:
    try:
        needs()
        kernel = package(request.param)
    except GuestError as error:
        pytest.skip(str(error))
    failure = make(ROOT / "hostlib", "lib", "tagger")
    assert not failure, failure
    run = Guest(kernel).run(command(), TIMEOUT_S)
    assert run.status is not None, f"the guest did not end in {TIMEOUT_S} s: {run.output}{run.console}"
    return Tried(run)


def test_the_kernel_mode_finds_and_marks_flows_there(tried):
    assert tried.failed("tagger", len(KERNEL + CLIMBS + LIFE)) == [], tried.run.output


def test_the_fabrics_ports_serve_strictly_there(tried):
    assert tried.failed("lab", len(FABRIC)) == [], tried.run.output
    assert tried.features["fabric"] == "ets"


def test_status_names_what_the_kernel_lacks(tried):
    found = tried.features
    version = tuple(int(part) for part in str(found["kernel"]).split("+")[0].split("-")[0].split(".")[:2])
    assert version >= (5, 17)
    assert ("no tcx" in str(found["tagger"])) == (version < (6, 6)), found
    assert ("no tracepoint tcp_sendmsg_locked" in str(found["kernel_mode"])) == (version < (6, 16)), found
    assert "off" not in str(found["kernel_mode"]), found
