"""Names by which the orchestrator itself acts: nobody else may have one."""

import pytest

from orchestrator.actors import Actor
from orchestrator.rest import tokens
from orchestrator.rest.tokens import Role
from orchestrator.watch.health import is_undoing


@pytest.mark.parametrize("name", [*Actor, "Health"])
def test_no_token_and_no_new_host_takes_the_name_of_a_part_of_the_orchestrator(admin, service, name):
    for role in Role:
        answer = admin.post("/v1/tokens", json={"role": role, "name": name})
        assert answer.status_code == 422 and "reserved" in answer.json()["detail"]
    assert admin.put(f"/v1/hosts/{name}").status_code == 422
    assert name not in service.store.hosts()
    assert name not in [each.name for each in service.store.tokens(0)]


def test_a_token_of_such_a_name_that_an_older_version_made_acts_by_another_one(admin, service):
    token = tokens.issue(service.store, Actor.HEALTH, Role.OPERATOR)
    mine = admin.get("/v1/caller", headers={"Authorization": f"Bearer {token}"}).json()
    assert mine["name"] == "token health"
    assert admin.delete("/v1/tokens/health").json() == {"revoked": 1}


def test_whether_a_rollout_undoes_another_is_a_field_and_no_name(store):
    revision = store.add_revision("root", {})
    for actor, document, expected in (
        (Actor.HEALTH, {"undoes": None}, False),
        ("root", {"undoes": 3}, True),
        (Actor.HEALTH, {}, True),  # an older version's
        ("root", {}, False),
    ):
        number = store.add_rollout(revision, actor, {"switches": {}, "hosts": {}, **document})
        assert is_undoing(store.rollout(number)) is expected
