"""What tests of the REST door have in common: a flow, a delivery, somebody of a role, an answer's sentence."""

from fastapi.testclient import TestClient

from orchestrator.rest import tokens
from orchestrator.rest.tokens import Role

FLOW = {"start_ns": 1, "last_write_ns": 5, "size_bytes": 1000}


def detail(answer, status: int) -> str:
    assert answer.status_code == status, answer.text
    found = answer.json()["detail"]
    assert isinstance(found, str)
    return found


def deliver(client: TestClient, records=(FLOW,), **body):
    return client.post("/v1/hosts/h1/records", json={"records": list(records), **body})


def as_role(client: TestClient, service, role: Role, name: str = "somebody") -> TestClient:
    client.headers["Authorization"] = f"Bearer {tokens.issue(service.store, name, role)}"
    return client
