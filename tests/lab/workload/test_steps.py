"""Where flows' time goes: the pure parts, and one pass over loopback under the library with a forest."""

import math
import os
from pathlib import Path

import numpy as np
import pytest
from qclimb.forest import KEY_MAX, Forest, lower_key, upper_key
from qclimb.hostfile import encode_forest, encode_policy
from qclimb.policy import Mode, Policy

import hostlib
from lab.build import make
from lab.workload import programs, steps
from lab.workload.ground import Loopback
from lab.workload.passes import run_pass
from lab.workload.services import Endpoint
from lab.workload.steps import STEPS, Begun, begun, matched, split
from lab.workload.trace import Trace

SLACK = 30_000
EVENLY = [10.0 * (n + 1) for n in range(10)]


def of(text: str) -> list[Begun]:
    return begun(text.strip().splitlines())


def test_a_forecast_belongs_to_the_flow_that_its_connection_began_last():
    found = of("""
[qclimb] 100 pid=1 fd=4 flow starts call=500
[qclimb] 110 pid=1 fd=5 flow starts call=70000
[qclimb] 120 pid=1 fd=5 forecast lower=9000 upper=99000 at=0 took_ns=40
[qclimb] 130 pid=1 flow ends size=500 priority=0 promotions=0 demotions=0 waited_us=0
[qclimb] 140 pid=1 fd=5 flow starts call=20 assumed=1
""")
    assert found == [Begun(100, 500), Begun(110, 70_000, 9000, 120, 40), Begun(140, 20)]


def test_a_flow_is_the_next_in_the_log_with_as_many_bytes_in_its_first_call():
    log = [Begun(90, 32), Begun(100, 500), Begun(105, 32), Begun(120, 500)]
    found = matched([(1, 95, 500), (2, 101, 32), (3, 110, 500), (4, 130, 500), (5, 0, 77)], log)
    assert found == {1: log[1], 2: log[2], 3: log[3]}


def test_a_line_that_comes_too_late_is_of_another_flow():
    assert matched([(1, 0, 500)], [Begun(steps.LATEST_NS + 1, 500)]) == {}


@pytest.mark.parametrize(
    ("lower_bytes", "slack_bytes", "expected"),
    [
        (40, 30, (0, 1, 39, 30, 30)),
        (100, 30, (0, 1, 99, 0, 0)),
        (1000, 30, (0, 1, 99, 0, 0)),
        (0, 0, (0, 1, 0, 0, 99)),
        (95, 1000, (0, 1, 99, 0, 0)),  # byte 95 was read with the last tenth
        (-1, 30, (100, 0, 0, 0, 0)),
    ],
    ids=["all-steps", "a-bound-that-is-the-size", "a-bound-above-it", "nothing-certain", "in-one-read", "not-asked"],
)
def test_steps_end_when_their_last_byte_is_read_and_add_up(lower_bytes, slack_bytes, expected):
    found = split(100, EVENLY, 0, 100.0, Begun(0, 10, lower_bytes, forecast_ns=1000, took_ns=1000), slack_bytes)
    assert tuple(found[name] for name in STEPS) == pytest.approx(expected)
    assert sum(found.values()) == pytest.approx(100)


def test_what_was_read_before_bounds_came_is_no_climb():
    found = split(100, EVENLY, 0, 100.0, Begun(0, 10, 50, forecast_ns=70_000, took_ns=10_000), 100)
    assert tuple(found[name] for name in STEPS) == pytest.approx((60, 10, 0, 30, 0))


@pytest.fixture
def ground(tmp_path):
    """Loopback with the library, a policy and a forest that says 20,000 to 90,000 bytes of whatever is above 5,000."""
    programs.build_applications()
    root = Path(hostlib.__file__).parent
    assert make(root, "lib") == ""
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    leaf = [[0], [KEY_MAX], [0], [int(lower_key(20_000))], [int(upper_key(90_000))], [0]]
    tables = [np.array(column, np.int32) for column in leaf]
    (run_dir / "model").write_bytes(encode_forest(Forest(7, (11,), 1, 0, *tables)))
    policy = Policy(
        generation=1, mode=Mode.QCLIMB, threshold_bytes=(5_000, 50_000), dscp=(47, 43, 39), slack_bytes=SLACK,
        use_forest=True, model_generation=7,
    )  # fmt: skip
    (run_dir / "policy").write_bytes(encode_policy(policy))
    environment = {"QCLIMB_RUN": str(run_dir)}
    network = f"127.{20 + os.getpid() % 200}.78"
    return Loopback(2, network=network, library=root / "build/libqclimb.so", environment=environment)


def test_a_watched_pass_tells_of_each_flow_what_its_time_went_into(ground, tmp_path):
    services = [Endpoint("pull0", 7100, "pull", "one"), Endpoint("push0", 7120, "push", "one")]
    text = "".join(f"{n} {n * 40_000} {name} h1 h2 {size} {size} {size}\n" for n, (name, size) in enumerate(
        [(name, size) for name in ("pull0", "push0") for size in (32, 4_000, 60_000, 400_000)], 1
    ))  # fmt: skip
    trace = Trace.from_text("# t\n# seconds 0.4\n" + text)
    folder = tmp_path / "pass"
    for _ in range(2):  # what the first left behind is not the second's
        result = run_pass(ground, trace, "by hand", folder, services=services, is_watched=True)
    assert not result.failures
    found = steps.steps_of(folder, trace, services, SLACK)
    assert found[steps.ASKED] == [0, 0, 1, 1] * 2
    assert np.sum([found[name] for name in STEPS], axis=0) == pytest.approx(result.fct_us, abs=0.01)
    assert found["unbounded"][:2] == pytest.approx(result.fct_us[:2], abs=0.01)
    assert all(found["inference"][n] > 0 for n in (2, 3, 6, 7))
    assert all(found["down"][n] > 0 for n in (3, 7))  # 350,000 bytes come after L + S


def test_who_is_not_watched_leaves_nothing_and_nothing_is_told(ground, tmp_path):
    services = [Endpoint("pull0", 7100, "pull", "one")]
    trace = Trace.from_text("# t\n# seconds 0.1\n1 0 pull0 h1 h2 100 100 100\n")
    run_pass(ground, trace, "by hand", tmp_path / "pass", services=services)
    assert not list((tmp_path / "pass").glob("marks-*"))
    assert all(math.isnan(column[0]) for column in steps.steps_of(tmp_path / "pass", trace, services, SLACK).values())
