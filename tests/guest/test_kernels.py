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
KERNEL_MODE = (
    *("static_program and 250000", "kept_connection", "nobody_outside", "library_beside", "forests_bounds"),
    *("one_write_climbs", "as_pias_would", "outlives_hostd", "in_its_own_namespace", "clsact_goes_on"),
)
FABRIC = ("every_other", "first_served_flow", "order_of_service", "wred")


def command() -> str:
    """What is run in the guest: each result goes to the directory that it shares with this machine."""
    pytest_ = f"{sys.executable} -m pytest -q -p no:cacheprovider -p no:xdist"
    return "\n".join(
        (
            "export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            f"cd {ROOT}; ip link set lo up; export PYTHONPATH={ROOT}/tests/tagger:{ROOT}/tests/shim",
            f"{sys.executable} tests/guest/features.py > /run/out/features.json",
            f"{pytest_} --junitxml=/run/out/kernel.xml tests/tagger/test_kernel*.py -k '{' or '.join(KERNEL_MODE)}'",
            f"{pytest_} --junitxml=/run/out/fabric.xml tests/lab/fabric/test_fabric.py -k '{' or '.join(FABRIC)}'",
        )
    )


@dataclass(frozen=True)
class Tried:
    run: Run

    @property
    def features(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.run.files["features.json"])
        return found

    def failed(self, name: str) -> list[str]:
        """What did not pass of a run of pytest's; "nothing ran" where that was so."""
        cases = list(ElementTree.fromstring(self.run.files[name]).iter("testcase"))
        bad = [
            f"{case.get('name')}: {part.get('message')}" for case in cases for part in case if part.tag != "properties"
        ]
        return bad if cases else ["nothing ran"]


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
    assert tried.failed("kernel.xml") == [], tried.run.output


def test_the_fabrics_ports_serve_strictly_there(tried):
    assert tried.failed("fabric.xml") == [], tried.run.output
    assert tried.features["fabric"] == "ets"


def test_status_names_what_the_kernel_lacks(tried):
    found = tried.features
    version = tuple(int(part) for part in str(found["kernel"]).split("+")[0].split("-")[0].split(".")[:2])
    assert version >= (5, 17)
    assert ("no tcx" in str(found["tagger"])) == (version < (6, 6)), found
    assert ("no tracepoint tcp_sendmsg_locked" in str(found["kernel_mode"])) == (version < (6, 16)), found
    assert "off" not in str(found["kernel_mode"]), found
