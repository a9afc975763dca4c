"""Announced lengths over the fabric: hosts' words are added up, an operator's counts, and a restart forgets neither."""

import pytest
from qclimb.errors import LengthError
from qclimb.lengths import Announced, LengthRule, Score, Service, Use

from orchestrator.ingest.lengths import Lengths
from orchestrator.plan.lengths import RULES_MOST, SERVICES_MOST, Fabric

KAFKA = Service("java", 1, 9092)
RULE, OTHER = LengthRule(0, 4, True, 4), LengthRule(12, 4, False, 16)


def told(rule: LengthRule | None = RULE, exact: int = 100, beyond: int = 0, service: Service = KAFKA) -> Announced:
    return Announced(service, rule, Use.IN_FORCE, Score(exact, 0, beyond))


def test_one_hosts_word_is_shown_and_given_to_nobody() -> None:
    fabric = Fabric().heard("h1", [told()]).heard("h1", [told()])
    assert fabric.known[KAFKA].score == Score(200)
    assert fabric.given == []
    assert fabric.heard("h2", [told()]).given == [told(exact=300)]


def test_of_several_rules_the_one_right_most_often_is_given_and_none_that_is_wrong() -> None:
    fabric = Fabric()
    for host in ("h1", "h2"):
        fabric = fabric.heard(host, [told(RULE, 100), told(OTHER, 30)])
    assert fabric.given[0].rule == RULE
    for host in ("h1", "h2"):
        fabric = fabric.heard(host, [told(RULE, 0, beyond=20)])
    assert fabric.given[0].rule == OTHER


def test_an_upper_bound_takes_a_thousand_flows_of_the_fabric() -> None:
    fabric = Fabric().heard("h1", [told(exact=600)]).heard("h2", [told(exact=300)])
    assert not fabric.given[0].is_exact
    assert fabric.heard("h2", [told(exact=100)]).given[0].is_exact


def test_what_a_host_says_is_bounded() -> None:
    services = [told(service=Service("p", 0, number)) for number in range(2 * SERVICES_MOST)]
    rules = [told(LengthRule(offset, 4), exact=200) for offset in range(50)]
    fabric = Fabric().heard("h1", [*services, *rules])
    assert len(fabric.found) <= SERVICES_MOST
    assert max(map(len, fabric.found.values())) == RULES_MOST
    assert fabric.heard("h2", [told(exact=10**9)]) == fabric
    assert fabric.heard("h2", [Announced(KAFKA, RULE, Use.TRIAL, Score(5))]) == fabric


def test_one_host_takes_neither_all_services_nor_all_rules_of_one() -> None:
    def lies(fabric: Fabric) -> Fabric:
        many = (told(service=Service("p", 0, number), exact=1_000_000) for number in range(SERVICES_MOST))
        rules = (told(LengthRule(offset, 2), exact=1_000_000) for offset in range(RULES_MOST + 2))
        return fabric.heard("liar", [*many, *rules])

    agreed = lies(lies(Fabric().heard("h1", [told()]).heard("h2", [told()])))
    assert agreed.given == [told(exact=200)]
    alone = lies(lies(Fabric()).heard("h1", [told()]))
    assert lies(alone.heard("h2", [told()])).given == [told(exact=200)]
    assert len(alone.found) == SERVICES_MOST and len(alone.found[KAFKA]) == RULES_MOST


def test_an_operators_word_counts_until_it_is_taken_back() -> None:
    fabric = Fabric().heard("h1", [told()]).heard("h2", [told()])
    forbidden = fabric.pin(Announced(KAFKA, None, Use.FORBIDDEN))
    assert (forbidden.given[0].use, forbidden.given[0].pinned) == (Use.FORBIDDEN, True)
    assert forbidden.heard("h1", [told()]).given[0].use is Use.FORBIDDEN
    assert forbidden.unpin(KAFKA).given == []


def test_it_comes_back_from_json() -> None:
    fabric = Fabric().heard("h1", [told(), told(OTHER), told(None, service=Service("nginx", 1, 80))])
    fabric = fabric.pin(Announced(KAFKA, OTHER, Use.IN_FORCE, is_exact=True))
    assert Fabric.from_json(fabric.to_json()) == fabric


@pytest.mark.parametrize("name", ["java", "java:9092", "java:accept:9092", "java:accepts:x", "java:accepts:99999", ":accepts:1"])  # fmt: skip  # noqa: E501
def test_what_is_no_service_is_refused(name: str) -> None:
    with pytest.raises(LengthError):
        Service.named(name)
    assert Service.named(KAFKA.name) == KAFKA


def test_hosts_tell_and_an_operator_pins_over_rest(admin, service) -> None:
    admin.put("/v1/hosts/h2")
    for host in ("h1", "h2"):
        answer = admin.post(f"/v1/hosts/{host}/lengths", json={"lengths": [told().to_json()]})
    assert [Announced.from_json(each) for each in answer.json()["lengths"]] == [told(exact=200)]
    body = {"rule": {"offset": 12, "width": 4, "is_big_endian": False, "constant_bytes": 16}, "is_exact": True}
    pinned = admin.put(f"/v1/lengths/{KAFKA.name}", json=body)
    assert (pinned.status_code, pinned.json()["rule"]["offset"], pinned.json()["pinned"]) == (200, 12, True)
    (known,) = admin.get("/v1/lengths").json()["lengths"]
    assert known == pinned.json()
    again = Lengths(service.store).heard("h1", [])  # as after a restart
    assert [each.rule for each in again] == [OTHER]
    assert admin.get("/v1/audit").json()[0]["action"] == "pin-lengths"
    assert admin.delete(f"/v1/lengths/{KAFKA.name}").status_code == 204
    assert admin.delete(f"/v1/lengths/{KAFKA.name}").status_code == 404
    assert admin.post("/v1/hosts/h1/lengths", json={"lengths": []}).json() == {"lengths": []}


def test_what_is_wrong_changes_nothing(admin) -> None:
    good = told().to_json()
    wrong = [
        {"lengths": [{**good, "port": 70_000}]},
        {"lengths": [{**good, "rule": {**good["rule"], "constant_bytes": 5000}}]},
        {"lengths": [{**good, "score": {"exact": -1}}]},
        {"lengths": [{**good, "bytes": "abc"}]},
        {"lengths": "all"},
    ]
    for body in wrong:
        assert admin.post("/v1/hosts/h1/lengths", json=body).status_code == 422
    assert admin.post("/v1/hosts/h9/lengths", json={"lengths": [good]}).status_code == 404
    assert admin.put("/v1/lengths/java", json={}).status_code == 422
    refused = admin.put(f"/v1/lengths/{KAFKA.name}", json={"rule": {"offset": 61, "width": 8}})
    assert (refused.status_code, "offset is 61" in refused.json()["detail"]) == (422, True)
    assert admin.get("/v1/lengths").json() == {"lengths": []}


def test_a_host_tells_for_itself_alone(admin, anonymous) -> None:
    token = admin.post("/v1/tokens", json={"role": "host", "name": "h1"}).json()["token"]
    viewer = admin.post("/v1/tokens", json={"role": "viewer", "name": "eve"}).json()["token"]
    admin.put("/v1/hosts/h2")

    def asked(method: str, path: str, by: str) -> int:
        headers = {"Authorization": f"Bearer {by}"}
        return int(anonymous.request(method, path, json={"lengths": []}, headers=headers).status_code)

    assert [asked("POST", f"/v1/hosts/{host}/lengths", token) for host in ("h1", "h2")] == [200, 403]
    assert asked("PUT", f"/v1/lengths/{KAFKA.name}", viewer) == 403
