"""Schemathesis against the OpenAPI document: every response to generated requests is documented.

Bounded: few generated requests an operation, the same each time; with credentials asked for.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings

from tests.support import systems
from tests.support.campaigns import campaign_cases

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its dependencies
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.core.result import Ok
    from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

pytestmark = pytest.mark.long

SECONDS = 60
STREAM_SECONDS = 10
"""Seconds for which an event stream is read that does not end."""
EXAMPLES, MORE_EXAMPLES = 2, 4
"""Generated requests of each operation, and of each of those that are the cases of the campaign in this run."""
BEARING = {"Authorization": "Bearer root"}
CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance]
ENDLESS = {"/v1/playbooks/{dataset}/events"}
"""Operations that never end cannot be read to its end; its tests are elsewhere."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data, http = tmp_path_factory.mktemp("schema"), f"127.0.0.1:{systems.free_port()}"
    environment = {
        "GATEWAY_API_TOKEN": "root",
        "HANSEI_HTTP_ADDRESS": http,
        "HANSEI_GATEWAY_DATABASE_URL": str(data / "gateway.db"),
    }
    with systems.one_process(data, **environment):
        yield f"http://{http}"


@pytest.fixture(scope="module")
def document(url: str) -> Any:
    return httpx.get(f"{url}/openapi.json", headers=BEARING, timeout=SECONDS).raise_for_status().json()


def test_no_text_names_a_clause_of_the_specification(document: Any) -> None:
    assert re.findall(r"\([A-Z]-\d+", json.dumps(document)) == []


def test_any_request_gets_a_documented_response(url: str, document: Any) -> None:
    sent: list[str] = []
    operations = []
    for found in schemathesis.openapi.from_dict(document).get_all_operations():
        assert isinstance(found, Ok)
        if found.ok().path not in ENDLESS:
            operations.append(found.ok())
    thorough = {operation.label for operation in campaign_cases(operations, short=0)}
    for operation in operations:
        examples = MORE_EXAMPLES if operation.label in thorough else EXAMPLES
        is_stream = "text/event-stream" in json.dumps(document["paths"][operation.path][operation.method])
        seconds = STREAM_SECONDS if is_stream else SECONDS

        @settings(max_examples=examples, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def check_operation(seconds: int, case: Any) -> None:
            response = case.call(base_url=url, headers=BEARING, timeout=seconds)
            sent.append(case.operation.path)
            case.validate_response(response, checks=CHECKS)

        check_operation(seconds)
    assert set(sent) == set(document["paths"]) - ENDLESS


def test_without_a_credential_every_operation_but_health_is_refused(url: str, document: Any) -> None:  # G-30
    with httpx.Client(base_url=url, timeout=SECONDS) as client:
        for path, verbs in document["paths"].items():
            for verb in verbs:
                assert (path, client.request(verb, path).status_code) == (path, 200 if path == "/health" else 401)
