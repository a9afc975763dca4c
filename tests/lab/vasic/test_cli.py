"""`qclimb lab vasic` as an operator runs it."""

import json

import pytest
from click.testing import CliRunner

from lab.cli.vasic import vasic

STEP = {
    "write": [
        ["CONFIG_DB", "HSET", "DSCP_TO_TC_MAP|M", {"8": "1"}],
        ["CONFIG_DB", "HSET", "PORT_QOS_MAP|Ethernet0", {"dscp_to_tc_map": "M"}],
    ],
    "then": {"ports": {"Ethernet0": {"dscp_to_tc": {"8": 1}}}},
}


def run(tmp_path, document, *options):
    file = tmp_path / "cases.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    return CliRunner().invoke(vasic, [str(file), *options])


def cases(*steps):
    return {"cases": [{"case": "a map", "steps": list(steps)}]}


def test_cases_that_agree_end_with_status_0(tmp_path):
    done = run(tmp_path, cases(STEP))
    assert (done.exit_code, done.output) == (0, "1 case, 1 step: all as told\n")


def test_a_step_that_differs_is_printed_and_ends_with_status_1(tmp_path):
    done = run(tmp_path, cases({**STEP, "then": {}}))
    assert done.exit_code == 1
    assert "a map, step 1: ports" in done.output
    assert '{"Ethernet0": {"dscp_to_tc": {"8": 1}}}' in done.output


def test_json_holds_each_difference(tmp_path):
    done = run(tmp_path, cases({**STEP, "then": {"pending": ["QUEUE|Ethernet0|x"], **STEP["then"]}}), "--json")
    (found,) = json.loads(done.output)["differences"]
    assert found == {
        "case": "a map",
        "step": 1,
        "what": "pending",
        "expected": ["QUEUE|Ethernet0|x"],
        "found": None,
    }


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ("{", "expected JSON"),
        ([], "list `cases`"),
        ({"cases": [{}]}, "cases[0]: expected an object with a list `steps`"),
        ({"cases": [{"bed": "other", "steps": []}]}, "cases[0].bed is 'other'"),
        (cases({}), "cases[0].steps[0]: expected an object with a list `write`"),
        (cases({"write": [["CONFIG_DB", "HSET", "M", {"8": "1"}]]}), "steps[0].write[0] is"),
        (cases({"write": [["CONFIG_DB", "SET", "T|M", {"8": "1"}]]}), "steps[0].write[0] is"),
        (cases({"write": [["CONFIG_DB", "HSET", "T|M", {"8": 1}]]}), "write[0]: fields are"),
        (cases({"write": [["CONFIG_DB", "HDEL", "T|M", {"8": "1"}]]}), "expected a list of strings"),
        (cases({"write": [["LINK", "Ethernet0", "sideways"]]}), "steps[0].write[0] is"),
    ],
)
def test_bad_input_is_named_by_its_place_and_ends_with_status_2(tmp_path, document, place):
    done = run(tmp_path, document)
    assert done.exit_code == 2
    assert place in done.output


def test_a_file_that_is_not_there_ends_with_status_2(tmp_path):
    done = CliRunner().invoke(vasic, [str(tmp_path / "none.json")])
    assert done.exit_code == 2
    assert "No such file" in done.output
