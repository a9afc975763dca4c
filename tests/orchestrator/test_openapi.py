"""schemathesis over the service's own OpenAPI: whatever is sent, no answer is a 5xx or one that the document lacks."""

from typing import Any

import jsonschema
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from tests.waiting import wait_until

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    unsupported_method,
)

SHORT = settings(
    max_examples=max(4, settings().max_examples // 8),
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def test_no_request_breaks_it(admin):
    tried = 0
    for found in schemathesis.openapi.from_dict(admin.get("/openapi.json").json()).get_all_operations():
        operation = found.ok()
        if operation.path.endswith("/events"):  # ends when the rollout does, or never: test_events
            continue

        @SHORT
        @given(case=operation.as_strategy())
        def probe(case):
            nonlocal tried
            tried += 1
            sent = case.as_transport_kwargs(base_url="http://testserver")
            sent = {
                name: value for name, value in sent.items() if name in ("method", "url", "params", "json", "headers")
            }
            given = {name: value for name, value in (sent.get("headers") or {}).items() if name != "Authorization"}
            answer = admin.request(**{**sent, "headers": {**given, **admin.headers}})
            assert answer.status_code != 401
            case.validate_response(schemathesis.Response.from_httpx(answer, verify=False), checks=CHECKS)

        probe()
    assert tried > 100


def test_the_document_is_complete(admin):
    document = admin.get("/openapi.json").json()
    paths = document["paths"]
    assert len(paths) >= 20
    assert document["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"
    for path, operations in paths.items():
        for method, operation in operations.items():
            assert operation.get("description"), f"{method} {path}"
            assert {"401", "403"} <= set(operation["responses"]), f"{method} {path}"
            assert "authorization" not in {each["name"].lower() for each in operation.get("parameters", ())}
            assert (path in ("/healthz", "/ready")) == ("security" not in operation), f"{method} {path}"
            for status, answer in operation["responses"].items():
                for kind, content in answer.get("content", {}).items():
                    if kind == "application/json":
                        told = content["schema"]
                        told = told.get("items", told)
                        assert set(told) <= {"$ref", "title"} and "$ref" in told, f"{method} {path} {status}: {told}"


def test_answers_have_the_fields_that_the_document_says_and_no_other(admin, records):
    document = admin.get("/openapi.json").json()

    def hold(method: str, path: str, template: str | None = None, **sent: Any) -> Any:
        answer = admin.request(method, path, **sent)
        assert answer.status_code < 300, answer.text
        told = document["paths"][template or path][method.lower()]["responses"][str(answer.status_code)]
        schema = {**told["content"]["application/json"]["schema"], "components": document["components"]}
        jsonschema.validate(answer.json(), schema)
        return answer.json()

    hold("PUT", "/v1/hosts/h1", "/v1/hosts/{name}")
    hold("PUT", "/v1/switches/s9", "/v1/switches/{name}", json={"address": "192.0.2.9:9339"})
    hold("GET", "/v1/switches")
    admin.delete("/v1/switches/s9")
    hold("POST", "/v1/tokens", json={"role": "viewer", "name": "eve"})
    hold("DELETE", "/v1/tokens/eve", "/v1/tokens/{name}")
    hold("PUT", "/v1/lengths/a:accepts:1", "/v1/lengths/{of}", json={"rule": {"offset": 0, "width": 4}})
    hold("GET", "/v1/lengths")
    hold("POST", "/v1/hosts/h1/lengths", "/v1/hosts/{name}/lengths", json={"lengths": []})
    hold("PUT", "/v1/recording", json={"label": "monday"})
    hold("GET", "/v1/recording")
    delivered = {"records": [each.to_json() for each in records]}
    hold("POST", "/v1/hosts/h1/records", "/v1/hosts/{name}/records", json=delivered)
    hold("POST", "/v1/models", json={"label": "monday", "trees": 3, "depth": 4})
    hold("GET", "/v1/models/1", "/v1/models/{generation}")
    wanted = {"mode": "qclimb", "label": "monday", "model": 1, "optax": True, "deadline_step_us": 5}
    hold("POST", "/v1/revisions", json=wanted)
    hold("GET", "/v1/revisions/1", "/v1/revisions/{number}")
    hold("POST", "/v1/rollouts", json={"revision": 1, "waves": [0.1, 0.5], "soak_s": 1, "absent_most": 2})

    def reported_and_ended() -> bool:
        admin.post("/v1/hosts/h1/records", json={"policy_generation": 1})
        return hold("GET", "/v1/rollouts/1", "/v1/rollouts/{number}")["phase"] != "running"

    wait_until(reported_and_ended, "the rollout ends")
    hold("GET", "/v1/hosts/h1/policy", "/v1/hosts/{name}/policy")
    for path in ("models", "revisions", "rollouts", "hosts", "state", "audit", "flows/statistics", "flows/drift"):
        hold("GET", f"/v1/{path}")
