"""Shares of a port's buffer: what is asked of the simulator, what is chosen by its answer, and what a revision says."""

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from qclimb.record import FlowRecord

from orchestrator.errors import ForecastError, ThresholdError
from orchestrator.models.simulator import Simulator
from orchestrator.plan import shares
from orchestrator.plan.shares import LEAST_FLOWS, Port, choose, question
from orchestrator.plan.sizes import SizeDistribution
from orchestrator.rest.service import Service
from orchestrator.store.store import Store

PORT = Port(225_000, 10.0)
SIZES = SizeDistribution.from_sizes([int(3000 * (1 - u) ** -0.9) for u in np.linspace(0, 0.999, 400)])
ASKED: dict[str, Any] = {"threshold_bytes": [10_000, 100_000], "is_qclimb": False, "slack_bytes": 10_000, "load": 0.6}


def told(th: int, slowdown: float, first: float, last: float, flows: int = LEAST_FLOWS) -> dict[str, Any]:
    """An answer of two seeds."""
    return {
        "shares": [th, 3],
        "flows": {"first": flows, "middle": 0, "last": LEAST_FLOWS},
        "fct_us": {"first": [first, first], "middle": [None, None], "last": [last, None]},
        "slowdown": [slowdown] * 2,
    }


BASE = told(3, 4.0, 100.0, 1000.0)


def test_the_best_of_those_that_cost_no_class_is_chosen() -> None:
    made = choose([BASE, told(2, 3.0, 80, 1000), told(1, 2.0, 60, 1019), told(0, 1.0, 50, 1021)])
    assert made.dynamic_th == (1, None)
    assert made.reason == (
        "foretold: the mean slowdown is 0.50 of the platform's, first 0.60, last 1.02 by mean completion time"
    )
    assert [each["dynamic_th"] for each in made.foretold or ()] == [[2, 3], [1, 3], [0, 3]]


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ([told(2, 2.0, 60, 1030), told(1, 1.0, 60, 1100)], "some class would be slower (last 1.10)"),
        ([told(2, 3.99, 99, 1000)], "the mean slowdown would be 1.00 of today's"),
        ([], "the platform's"),
    ],
)
def test_the_platform_keeps_its_shares_where_nothing_is_won_or_somebody_pays(others: list[Any], reason: str) -> None:
    made = choose([BASE, *others])
    assert made.dynamic_th is None and reason in made.reason


def test_a_class_of_a_few_flows_decides_nothing() -> None:
    few = told(3, 4.0, 100.0, 1000.0, flows=LEAST_FLOWS - 1)
    assert choose([few, told(1, 2.0, 900, 1000, flows=LEAST_FLOWS - 1)]).dynamic_th == (1, None)


def test_only_what_is_narrower_than_the_platform_is_tried_and_the_last_queue_keeps_its_share() -> None:
    asked = question(replace(PORT, dynamic_th=1), SIZES, mark_bytes=None, **ASKED)
    assert asked["sets"] == [[1, 1, 1], [0, 0, 1]]
    assert asked["cdf"][-1][1] == pytest.approx(1)
    with pytest.raises(ThresholdError, match=r"port\.congestion_control is dctcp, expected ecn_bytes beside it"):
        question(replace(PORT, congestion_control="dctcp"), SIZES, mark_bytes=None, **ASKED)


def test_the_simulator_is_asked_once_for_each_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "PACKETS", 20_000)
    monkeypatch.setattr(shares, "SEEDS", 2)
    asked = question(PORT, SIZES, mark_bytes=None, **ASKED)
    simulator = Simulator()
    answer = simulator.ask(asked)
    assert [each["shares"] for each in answer] == asked["sets"]
    assert all(len(each["slowdown"]) == 2 and min(each["slowdown"]) >= 1 for each in answer)
    assert simulator.ask(dict(reversed(asked.items()))) is answer


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ((sys.executable, "-m", "lab.sim.shares_that_are_not_there"), "the simulator ended with 1: "),
        (("/nonexistent/simulator",), "the simulator did not answer: "),
        ((sys.executable, "-c", "print('half an ans')"), "the simulator's answer is no JSON"),
        ((sys.executable, "-c", "import time; time.sleep(60)"), "the simulator did not answer: "),
    ],
)
def test_a_simulator_that_fails_says_why(program: tuple[str, ...], said: str) -> None:
    with pytest.raises(ForecastError, match=said):
        Simulator(program, longest_s=60 if "sleep" not in program[-1] else 0.5).ask({})


def test_a_question_that_makes_no_sense_is_answered_by_one_sentence() -> None:
    asked = question(PORT, SIZES, mark_bytes=None, **ASKED)
    with pytest.raises(ForecastError, match=r"ended with 2: scheme.dynamic_alpha has 2 shares, expected 1 or 3"):
        Simulator().ask({**asked, "sets": [[3, 3]], "seeds": 1})
    with pytest.raises(ForecastError, match="ended with 2: question: expected an object with buffer_bytes, cdf"):
        Simulator().ask({"sets": []})


class Oracle(Simulator):
    """Says that the second set halves the slowdown; keeps what it was asked."""

    asked: dict[str, Any] | None = None

    def ask(self, question: dict[str, Any]) -> list[dict[str, Any]]:
        self.asked = question
        base = {"flows": {"first": 999}, "fct_us": {"first": [1.0]}}
        return [
            {**base, "shares": each, "slowdown": [0.5 if at == 1 else 1.0]} for at, each in enumerate(question["sets"])
        ]


def deliver(admin: TestClient, *size_bytes: int) -> None:
    records = [FlowRecord(start_ns=1, last_write_ns=1, size_bytes=size).to_json() for size in size_bytes]
    assert admin.post("/v1/hosts/h1/records", json={"records": records}).status_code == 202


REVISION = {"priorities": 3, "thresholds": [10_000, 100_000], "load": 0.7}
PORT_BODY = {"buffer_bytes": 225_000, "gbps": 10}


def revised(admin: TestClient, **asked: Any) -> tuple[list[int | None], str, dict[str, Any]]:
    """dynamic_th of each class, the reason, and the whole revision."""
    answer = admin.post("/v1/revisions", json={**REVISION, **asked})
    assert answer.status_code == 201, answer.text
    found = answer.json()
    classes = found["intent"]["qclimb:qclimb"]["classes"]["class"]
    return [each["config"].get("dynamic-th") for each in classes], found["shares"]["reason"], found


def test_a_revision_has_the_shares_that_were_foretold_to_be_best_and_says_why(
    admin: TestClient, service: Service
) -> None:
    oracle = service.simulator = Oracle()
    deliver(admin, 2_000, 20_000, 2_000_000)
    shares_of, reason, found = revised(admin, port=PORT_BODY)
    assert shares_of == [2, 2, None] and "0.50 of the platform's" in reason
    assert oracle.asked is not None and oracle.asked["load"] == 0.7 and not oracle.asked["is_qclimb"]
    assert admin.get(f"/v1/revisions/{found['id']}").json()["shares"] == found["shares"]


def test_a_revision_leaves_the_platforms_shares_where_nothing_can_be_foretold(
    admin: TestClient, service: Service
) -> None:
    oracle = service.simulator = Oracle()
    assert revised(admin)[:2] == ([None] * 3, "the platform's: `port` is not told, so nothing is foretold")
    assert revised(admin, port=PORT_BODY)[:2] == ([None] * 3, "the platform's: no flows are recorded")
    deliver(admin, 9_000)
    assert revised(admin, port=PORT_BODY, dynamic_th=None)[:2] == ([None] * 3, "the platform's, as asked")
    assert revised(admin, port=PORT_BODY, dynamic_th=[0, 1, None])[:2] == ([0, 1, None], "as asked")
    one = revised(admin, port=PORT_BODY, priorities=1, thresholds=[])
    assert one[:2] == ([None], "the platform's: one priority has the whole buffer")
    spines = revised(
        admin, port=PORT_BODY, spines=["s1", "s2"], thresholds=[1_000, 2_000], weights="equal", priorities=None
    )
    assert spines[1] == "the platform's: several spines are not foretold"
    assert oracle.asked is None
    service.simulator = Simulator(("/nonexistent/simulator",))
    assert "the simulator did not answer" in revised(admin, port=PORT_BODY)[1]


@pytest.mark.parametrize(
    ("port", "named"),
    [
        ({"buffer_bytes": 0, "gbps": 10}, "body.port.buffer_bytes is 0"),
        ({"buffer_bytes": 225_000, "gbps": 0}, "body.port.gbps is 0"),
        ({"buffer_bytes": 225_000, "gbps": 10, "dynamic_th": 9}, "body.port.dynamic_th is 9"),
        ({"gbps": 10}, "body.port.buffer_bytes: is missing"),
        ({**PORT_BODY, "congestion_control": "dctcp"}, "port.congestion_control is dctcp, expected ecn_bytes"),
    ],
)
def test_a_port_that_can_not_be_is_refused(admin: TestClient, store: Store, port: dict[str, Any], named: str) -> None:
    deliver(admin, 9_000)
    answer = admin.post("/v1/revisions", json={**REVISION, "port": port})
    assert answer.status_code == 422 and named in answer.json()["detail"], answer.text
    assert store.revisions() == []
