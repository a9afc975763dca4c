"""The machine against what the real orchagent made of the same rows."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from lab.control.vasic.replay import Difference, Replay, differences, read

RECORDED = Path(__file__).parents[4] / "shared" / "data" / "orchagent.json"
needs_the_recording = pytest.mark.skipif(not RECORDED.exists(), reason=f"{RECORDED} is not there")


@needs_the_recording
def test_every_recorded_step_ends_as_orchagent_left_it():
    ports, cases = read(RECORDED)
    assert len(cases) >= 80
    assert [each for case in cases for each in differences(case, ports)] == []


def counted(calls):
    found = Counter()
    for call in calls:
        name, times = re.fullmatch(r"(.*?)(?: x(\d+))?", call).groups()
        found[name] += int(times or 1)
    return found


@needs_the_recording
def test_what_passes_through_no_object_in_orchagent_does_so_here():
    ports, cases = read(RECORDED)
    for case in cases:
        replay = Replay(ports)
        if case.bed:
            replay.set_bed()
        for step in case.steps:
            replay.machine.sai.calls.clear()
            replay.write(step.writes)
            nulls = Counter(call for call in replay.machine.sai.calls if call.endswith(" null"))
            del nulls["set SWITCH null"]  # the recording leaves these out
            assert nulls == {call: n for call, n in counted(step.then["calls"]).items() if call.endswith(" null")}


def written(tmp_path, *steps, **more):
    file = tmp_path / "cases.json"
    file.write_text(json.dumps({"cases": [{"case": "one", "steps": steps, **more}]}))
    return file


MAP = ["CONFIG_DB", "HSET", "DSCP_TO_TC_MAP|M", {"8": "1"}]
BIND = ["CONFIG_DB", "HSET", "PORT_QOS_MAP|Ethernet0", {"dscp_to_tc_map": "M"}]
BOUND = {"Ethernet0": {"dscp_to_tc": {"8": 1}}}


def test_a_step_that_ends_otherwise_is_told_with_both_values(tmp_path):
    ports, (case,) = read(written(tmp_path, {"write": [MAP], "then": {}}, {"write": [BIND], "then": {"ports": {}}}))
    assert list(differences(case, ports)) == [Difference("one", 2, "ports", {}, BOUND)]


def test_what_is_loose_is_not_compared(tmp_path):
    ports, (case,) = read(written(tmp_path, {"write": [MAP, BIND], "then": {}}, loose=["ports"]))
    assert list(differences(case, ports)) == []
