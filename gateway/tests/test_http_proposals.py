"""The three endpoints under `/api`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chassis.errors import FailedPrecondition, Unavailable
from gateway.tests.scripted_http import Peers, client_of
from hansei.validator.v1 import report_pb2 as report
from hansei.validator.v1 import validator_service_pb2 as validator
from tests.support.campaigns import campaign_size

DASHBOARD = {"trays": {"in_progress": [{"id": "n1", "title": "見積 {x}", "status": "IN_PROGRESS"}]}}
RUNS = ["/api/organizer/run", "/api/advisor/run"]
VALIDATE = "/api/proposal-quality/validate"


def ending(run: report.ReportRun) -> Peers:
    """Peers where every run ends so."""
    organizer, advisor = validator.RunOrganizerResponse(run=run), validator.RunAdvisorResponse(run=run)
    return Peers(answers={"RunOrganizer": [organizer], "RunAdvisor": [advisor]})


@pytest.mark.parametrize(("path", "kind"), [(RUNS[0], "RunOrganizerRequest"), (RUNS[1], "RunAdvisorRequest")])
async def test_a_report_run_with_a_valid_report(path: str, kind: str) -> None:
    run = report.ReportRun(ok=True, report_json='{"summary": "要約"}', warnings=["w"], rendered="要約\n")
    peers = ending(run)
    body = {
        "dashboard": DASHBOARD,
        "focusNodeId": "n1",
        "userIntent": "早く",
        "constraints": "予算",
        "validNodeIds": ["zz"],
    }
    async with client_of(peers) as client:
        response = await client.post(path, json=body)
    assert response.status_code == 200
    assert response.json() == {
        "ok": True,
        "report": {"summary": "要約"},
        "errors": [],
        "warnings": ["w"],
        "rendered": "要約\n",
    }  # G-22
    assert "要約".encode() in response.content  # G-31
    (request,) = peers.requests
    assert request.DESCRIPTOR.name == kind
    assert json.loads(request.brief.dashboard_json) == DASHBOARD
    assert (request.brief.focus_node_id, request.brief.user_intent) == ("n1", "早く")
    assert list(request.brief.constraints) == ["予算"]  # V-32
    assert "zz" not in str(request)  # G-26


async def test_omitted_fields_stay_omitted() -> None:
    peers = Peers()
    async with client_of(peers) as client:
        await client.post(RUNS[0], json={"dashboard": DASHBOARD, "constraints": ["a", "b"], "focusNodeId": None})
    (request,) = peers.requests
    assert not request.brief.HasField("focus_node_id")
    assert not request.brief.HasField("user_intent")
    assert list(request.brief.constraints) == ["a", "b"]


@pytest.mark.parametrize("path", RUNS)
async def test_a_report_run_without_a_valid_report_is_a_response(path: str) -> None:
    run = report.ReportRun(
        ok=False, report_json="", errors=["e"], rendered="never", stop_reason=report.STOP_REASON_ATTEMPTS_EXHAUSTED
    )
    async with client_of(ending(run)) as client:
        response = await client.post(path, json={"dashboard": DASHBOARD})
    assert response.status_code == 200
    assert response.json() == {"ok": False, "report": None, "errors": ["e"], "warnings": []}  # G-22, G-74


@pytest.mark.parametrize("path", RUNS)
async def test_an_invalid_dashboard_is_400(path: str) -> None:
    message = "dashboard is required (object with trays)"
    run = report.ReportRun(ok=False, errors=[message], stop_reason=report.STOP_REASON_DASHBOARD_INVALID)
    async with client_of(ending(run)) as client:
        response = await client.post(path, json={})
    assert response.status_code == 400
    assert response.json() == {"ok": False, "report": None, "errors": [message], "warnings": []}  # G-23


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (
            FailedPrecondition("OPENAI_API_KEY is not set", reason="MODEL_KEY_MISSING"),
            "OPENAI_API_KEY is not set",
        ),  # G-24
        (Unavailable("validator does not answer"), "validator does not answer"),  # G-25
    ],
)
@pytest.mark.parametrize("path", RUNS)
async def test_a_failure_is_500_in_the_same_shape(path: str, failure: Exception, message: str) -> None:
    async with client_of(Peers(raises={"RunOrganizer": failure, "RunAdvisor": failure})) as client:
        response = await client.post(path, json={"dashboard": DASHBOARD})
    assert response.status_code == 500
    assert response.json() == {"ok": False, "report": None, "errors": [message], "warnings": []}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"focusNodeId": 5}, "focusNodeId must be a string (got 5)"),
        ({"userIntent": ["x"]}, "userIntent must be a string (got a list)"),
        ({"constraints": {"a": 1}}, "constraints must be a string or a list of strings (got an object)"),
        ({"constraints": ["a", 1]}, "constraints must be a string or a list of strings (got a list)"),
        ({"focusNodeId": "x" * 600}, "brief.focus_node_id must be at most 512 characters"),
    ],
)
async def test_a_field_of_another_type_is_400_in_the_same_shape(fields: dict[str, Any], message: str) -> None:
    peers = Peers()
    async with client_of(peers) as client:
        response = await client.post(RUNS[1], json={"dashboard": DASHBOARD, **fields})
    assert response.status_code == 400
    assert response.json() == {"ok": False, "report": None, "errors": [message], "warnings": []}
    assert peers.requests == []


@pytest.mark.parametrize("path", [*RUNS, VALIDATE])
async def test_an_unexpected_error_is_500_with_only_its_id_in_the_log(path: str) -> None:
    failure = RuntimeError("secret")
    raises: dict[str, Exception] = dict.fromkeys(("RunOrganizer", "RunAdvisor", "ValidateReport"), failure)
    async with client_of(Peers(raises=raises)) as client:
        response = await client.post(path, json={"dashboard": DASHBOARD, "type": "advisor", "report": {}})
    assert response.status_code == 500  # G-25
    (message,) = response.json()["errors"]
    assert message.startswith("internal error; the log has it under ")
    assert "secret" not in response.text


NO_OBJECTS = [b"", b"[]", b"null", b'"x"', b"{", b"\xff", b'{"a": NaN}', b"[" * 100_000, b'{"type": "\\ud800"}']


@pytest.mark.parametrize("content", NO_OBJECTS, ids=lambda content: repr(content[:20]))
@pytest.mark.parametrize("path", [*RUNS, VALIDATE])
async def test_a_body_that_is_no_object_is_400_in_the_endpoints_shape(path: str, content: bytes) -> None:
    async with client_of(Peers()) as client:
        response = await client.post(path, content=content)
    assert response.status_code == 400  # G-29
    shape: dict[str, Any] = {"ok": False, "errors": ["body must be JSON object"], "warnings": []}
    assert response.json() == (shape if path == VALIDATE else {**shape, "report": None})


async def test_a_report_is_checked() -> None:
    result = report.ValidationResult(ok=False, errors=["e1", "e2"], warnings=["注意"])
    peers = Peers(answers={"ValidateReport": [validator.ValidateReportResponse(result=result)]})
    body = {"type": "organizer", "report": {"a": ["{x}"]}, "validNodeIds": ["n1", 5, None, ["n2"], "n3"]}
    async with client_of(peers) as client:
        response = await client.post(VALIDATE, json=body)
    assert response.status_code == 200
    assert response.json() == {"ok": False, "errors": ["e1", "e2"], "warnings": ["注意"]}  # G-27
    (request,) = peers.requests
    assert (request.type, json.loads(request.report_json)) == ("organizer", {"a": ["{x}"]})
    assert list(request.valid_node_ids) == ["n1", "n3"]  # G-27


@pytest.mark.parametrize(
    "body", [{"type": "advisor", "report": 5}, {"type": "advisor", "report": 5, "validNodeIds": None}]
)
async def test_ids_may_be_left_out_and_a_report_may_be_anything(body: dict[str, Any]) -> None:
    peers = Peers()
    async with client_of(peers) as client:
        assert (await client.post(VALIDATE, json=body)).status_code == 200
    assert peers.requests[0].report_json == "5"
    assert list(peers.requests[0].valid_node_ids) == []  # G-27


@pytest.mark.parametrize("kind", ["Organizer", "", None, 5, ["organizer"], {"a": 1}])
async def test_another_type_is_400(kind: Any) -> None:
    peers = Peers()
    async with client_of(peers) as client:
        response = await client.post(VALIDATE, json={"type": kind, "report": {}, "validNodeIds": []})
    assert response.status_code == 400
    expected = {"ok": False, "errors": ["type must be 'organizer' or 'advisor'"], "warnings": []}
    assert response.json() == expected  # G-28
    assert peers.requests == []


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("dashboard", "focusNodeId", "userIntent", "constraints", "type", "report", "validNodeIds")


@settings(max_examples=campaign_size(150, 40), deadline=None)
@given(
    body=st.dictionaries(st.sampled_from(FIELDS), JSON_VALUES) | JSON_VALUES, path=st.sampled_from([*RUNS, VALIDATE])
)
async def test_any_request_gets_a_response_or_a_client_error(body: Any, path: str) -> None:
    async with client_of(Peers()) as client:
        response = await client.post(path, content=json.dumps(body).encode())
    assert response.status_code in (200, 400), response.text
    assert {"ok", "errors", "warnings"} <= set(response.json())


async def test_a_check_that_fails_is_500_in_its_shape() -> None:
    async with client_of(Peers(raises={"ValidateReport": Unavailable("validator does not answer")})) as client:
        response = await client.post(VALIDATE, json={"type": "advisor", "report": {}})
    assert response.status_code == 500
    assert response.json() == {"ok": False, "errors": ["validator does not answer"], "warnings": []}
