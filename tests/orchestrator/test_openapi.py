"""schemathesis over the service's own OpenAPI: whatever is sent, no answer is a 5xx or one that the document lacks."""

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)

SHORT = settings(
    max_examples=12,
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

        @SHORT
        @given(case=operation.as_strategy())
        def probe(case):
            nonlocal tried
            tried += 1
            sent = case.as_transport_kwargs(base_url="http://testserver")
            sent = {
                name: value for name, value in sent.items() if name in ("method", "url", "params", "json", "headers")
            }
            answer = admin.request(**{**sent, "headers": {**dict(sent.get("headers") or {}), **admin.headers}})
            case.validate_response(schemathesis.Response.from_httpx(answer, verify=False), checks=CHECKS)

        probe()
    assert tried > 200


def test_the_document_is_complete(admin):
    paths = admin.get("/openapi.json").json()["paths"]
    assert len(paths) >= 20
    for path, operations in paths.items():
        for method, operation in operations.items():
            assert operation.get("description"), f"{method} {path}"
            assert {"401", "403"} <= set(operation["responses"]), f"{method} {path}"
