"""What the engine reads: settings and flows that cannot be are exit 2 and one sentence, and no others end a run."""

import subprocess

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.sim import NAMED, Experiment, Topology
from lab.sim.engine import program
from lab.sim.fluid import FluidExperiment, settings_of
from lab.sim.runner import flows_of
from lab.sim.wire import FLOW

SMALL = Topology(leaves=2, spines=2, hosts_per_leaf=2)
FLUID = FluidExperiment()


def words_of(name):
    """Settings that are right, of a run over GOOD (fluid: between two hosts) that ends soon."""
    if name == "fluid":
        return settings_of(FLUID)
    routing = "ecmp" if name in ("pfabric", "pdq", "d3") else "priority"
    return Experiment(SMALL, NAMED[name], flows=20, routing=routing, spine_shares=(1, 2), end_s=1e-4).settings()


def flow(**changes):
    record = np.zeros(1, FLOW)
    record["size_bytes"], record["target"], record["upper_bytes"] = 5_000, 1, 9_000
    for key, value in changes.items():
        record[key] = value
    return record.tobytes()


GOOD = b"".join(chunk.tobytes() for chunk in flows_of(Experiment(SMALL, flows=20, load=2.0)))


def told(words, flows=GOOD):
    """Exit and what was said, of the engine with invariants."""
    given_words = [f"{key}={value}" for key, value in words.items()] if isinstance(words, dict) else words
    ran = subprocess.run([program(checked=True), *given_words], input=flows, capture_output=True, check=False)
    return ran.returncode, ran.stderr.decode()


@pytest.mark.parametrize("name", ["pfabric", "homa", "qclimb", "pdq", "d3", "fluid"])
def test_a_run_with_settings_that_are_right_says_nothing(name):
    assert told(words_of(name), 20 * flow() if name == "fluid" else GOOD) == (0, "")


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [
        ("qclimb", {"sed": "1"}, "sed is no setting of this run; did you mean seed?"),
        ("qclimb", {"overcommitment": "4"}, "overcommitment is no setting of this run; did you mean"),
        ("pfabric", {"max_windows": "4"}, "max_windows is no setting of this run; did you mean max_window?"),
        (
            "pfabric",
            {"scheme": "pfabrik"},
            "scheme is pfabrik, expected one of coflow, d3, flow, fluid, homa, ictcp",
        ),
        ("qclimb", {"routing": "best"}, "routing is best, expected one of ecmp, spray, priority"),
        ("qclimb", {"tagging": "pia"}, "tagging is pia, expected one of none, pias, qclimb, "),
        ("qclimb", {"leaves": "4294967298"}, "leaves is 4294967298, expected a whole number, 1 to 1048576"),
        ("qclimb", {"leaves": "99999999999999999999"}, "leaves is 99999999999999999999, expected a whole number"),
        ("qclimb", {"leaves": "2000", "hosts_per_leaf": "2000"}, "leaves times hosts_per_leaf is 4000000, expected 2"),
        ("qclimb", {"spines": "0"}, "leaves times spines is 0, expected at most 1048576, and 1 or more with"),
        ("qclimb", {"seed": ""}, "seed is empty, expected a whole number, 0 to"),
        ("qclimb", {"seed": "1e3"}, "seed is 1e3, expected a whole number"),
        ("qclimb", {"spine_shares": "x"}, "spine_shares[0] is x, expected a whole number, 0 to 4294967295"),
        ("qclimb", {"spine_shares": "0,0"}, "spine_shares has 2 numbers that add up to 0, expected 2, not all 0"),
        ("qclimb", {"spine_shares": "1,"}, "spine_shares is 1,, expected no comma at its end"),
        ("qclimb", {"thresholds": "5,9"}, "thresholds has 2 numbers, expected 7"),
        ("qclimb", {"thresholds": "1,2,3,4,5,9,7"}, "thresholds[6] is 7, expected more than 9"),
        ("qclimb", {"thresholds": "1,2,3,,5,6,7"}, "thresholds[3] is empty, expected a whole number"),
        ("qclimb", {"dctcp_alpha_1024ths": "1025"}, "dctcp_alpha_1024ths is 1025, expected a whole number, 0 to 1024"),
        ("homa", {"unscheduled": "8"}, "unscheduled is 8, expected a whole number, 1 to 7"),
        ("fluid", {"spine_shares": "1,2"}, "spine_shares has 2 numbers that add up to 3, expected 4, not all 0"),
        ("fluid", {"thresholds": "9,8,7,6"}, "thresholds[1] is 8, expected more than 9"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name_and_value(name, changes, sentence):
    code, said = told({**words_of(name), **changes})
    assert code == 2 and said.startswith(sentence), (code, said)
    assert said.count("\n") == 1


def test_a_setting_that_is_missing_misspelt_or_given_twice_is_named():
    words = words_of("pfabric")
    without = {key: value for key, value in words.items() if key != "timeout_ps"}
    assert told(without) == (2, "the setting timeout_ps is missing\n")
    assert told({**without, "timout_ps": 5}) == (2, "timout_ps is no setting of this run; did you mean timeout_ps?\n")
    listed = [f"{key}={value}" for key, value in words.items()]
    assert told([*listed, "seed=2"]) == (2, "seed is given twice\n")
    assert told([*listed, "seed"]) == (2, f"argument {len(listed) + 1} is seed, expected key=value\n")


@pytest.mark.parametrize(
    ("flows", "sentence"),
    [
        (flow(source=9), "flow 0: source is 9, expected a host, 0 to 3"),
        (flow() + flow(target=0), "flow 1: target is 0, expected a host, 0 to 3, and not its source"),
        (flow(start_ps=-5), "flow 0: start_ps is -5, expected at least the start ahead of it, 0, and at most 2^62"),
        (flow(start_ps=5) + flow(start_ps=4), "flow 1: start_ps is 4, expected at least the start ahead of it, 5"),
        (flow(start_ps=2**62 + 1), "flow 0: start_ps is 4611686018427387905, expected at least"),
        (flow(size_bytes=0), "flow 0: size_bytes is 0, expected 1 or more"),
        (flow(size_bytes=2**64 - 1), "flow 0: size_bytes is 18446744073709551615, expected at most 2^31 - 1 packets"),
        (flow(lower_bytes=9_001), "flow 0: lower_bytes is 9001, expected at most upper_bytes, 9000"),
        (flow(start_ps=9, deadline_ps=9), "flow 0: deadline_ps is 9, expected 0 (none), or more than start_ps, 9"),
        (flow() + flow()[:-1], "flow 1: the list ends after 79 bytes of it, expected 80"),
        (flow()[:5], "flow 0: the list ends after 5 bytes of it, expected 80"),
    ],
)
def test_a_flow_that_cannot_be_is_refused_by_its_number_and_the_value(flows, sentence):
    for name in ("pfabric", "qclimb", "homa"):
        code, said = told({**words_of(name), "routing": "ecmp"}, flows)
        assert code == 2 and said.startswith(sentence), (code, said)
        assert said.count("\n") == 1


NASTY = ["", "-1", "0", "x", "1,x", ",", "0,0", "1,,2", " 5", "+5", "0x10", "1\n2", "4294967297", "9" * 30]
NUMBERS = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 2, 3, 1460, 2**31, 2**32, 2**62, 2**63]))
RECORDS = st.lists(
    st.fixed_dictionaries({}, optional={name: NUMBERS for name in FLOW.names if name != "source"}), max_size=4
)


def bytes_of(records):
    fitting = [
        {
            key: value % 2 ** (8 * FLOW[key].itemsize - (key in ("start_ps", "deadline_ps")))
            for key, value in one.items()
        }
        for one in records
    ]
    return b"".join(flow(**one) for one in fitting)


@given(name=st.sampled_from(["pfabric", "homa", "pias", "qclimb", "pdq", "d3", "fluid"]), data=st.data())
@settings(max_examples=settings.default.max_examples // 4)
def test_no_settings_and_no_bytes_end_in_more_than_a_sentence(name, data):
    words = dict(words_of(name))
    key = data.draw(st.sampled_from(sorted(words)))
    if data.draw(st.booleans()):
        words[key] = data.draw(st.sampled_from(NASTY))
    drawn = bytes_of(data.draw(RECORDS)) if name != "fluid" else b""
    flows = data.draw(st.sampled_from([GOOD, b"", drawn])) + data.draw(st.binary(max_size=100))
    code, said = told(words, flows)
    assert code in (0, 2), said
    assert said.count("\n") == (1 if code else 0), said


def test_a_setting_of_another_scheme_is_refused_and_not_ignored():
    words = words_of("pfabric") | {"dctcp_alpha_1024ths": 0}
    assert told(words)[0] == 2
