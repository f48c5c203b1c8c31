"""Reports over gRPC, with a model behind real HTTP."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from chassis import Peers, serve
from chassis.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from hansei.validator.v1 import kind_pb2, report_pb2
from hansei.validator.v1 import validator_service_pb2 as pb
from hansei.validator.v1 import validator_service_pb2_grpc as rpc
from services.validator.bootstrap import build
from services.validator.settings import ValidatorSettings
from services.validator.tests.samples import advisor, decomposition, option, organizer
from tests.fakes.openai_answers import body, chat, chat_json, empty_choices, error, reset, truncate
from tests.fakes.openai_server import OpenAIServer

DASHBOARD = json.dumps({"trays": {"in_progress": [{"id": "n1", "title": "見積", "status": "IN_PROGRESS"}]}})
VALID = organizer(decomposition_proposals=[decomposition()])
BROKEN = organizer(decomposition_proposals=[decomposition("zz")])


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        monkeypatch.setenv("LLM_PROVIDER", "openai")
        monkeypatch.setenv("OPENAI_API_KEY", "secret-key-of-the-test")
        monkeypatch.setenv("OPENAI_BASE_URL", running.base_url)
        yield running


@asynccontextmanager
async def validator_in(folder: Path, **chosen: Any) -> AsyncIterator[Any]:
    """Yield a stub of a running validator, over a channel as services use it."""
    settings = ValidatorSettings(validator_database_url=str(folder / "leaderboard.db"), **chosen)
    async with serve(build(settings, Peers({}))) as running:
        peers = Peers({"validator": running.address})
        yield rpc.ValidatorServiceStub(peers.get_channel("validator"))
        await peers.close()


@pytest.fixture
async def validator(tmp_path: Path) -> AsyncIterator[Any]:
    async with validator_in(tmp_path) as stub:
        yield stub


def brief(**fields: Any) -> report_pb2.DashboardBrief:
    return report_pb2.DashboardBrief(**{"dashboard_json": DASHBOARD, **fields})


async def validate_report(validator: Any, type_name: str, report: object, *ids: str, **fields: Any) -> Any:
    text = report if isinstance(report, str) else json.dumps(report, ensure_ascii=False)
    request = pb.ValidateReportRequest(type=type_name, report_json=text, valid_node_ids=ids, **fields)
    return (await validator.ValidateReport(request)).result


async def test_reports_are_validated(validator: Any) -> None:  # V-74
    result = await validate_report(validator, "organizer", BROKEN, "n1")
    assert not result.ok
    assert list(result.errors) == ["decomposition_proposals[0].target_node_id 'zz' is not in valid node list"]
    (finding,) = result.findings
    assert (finding.code, finding.severity) == ("ORGANIZER_ID_UNKNOWN", report_pb2.SEVERITY_ERROR)
    assert finding.pointer == "/decomposition_proposals/0/target_node_id"
    assert (list(finding.allowed_values), finding.allowed_values_total) == (["n1"], 1)
    assert (await validate_report(validator, "advisor", advisor(), "n1")).ok


async def test_the_wording_mode_is_chosen_by_the_request(validator: Any) -> None:
    report = organizer("まず調べきれない点を挙げる案があります。")
    assert not (await validate_report(validator, "organizer", report)).ok
    assert (await validate_report(validator, "organizer", report, wording=report_pb2.WORDING_LINGUISTIC)).ok
    recommending = advisor(summary="おすすめは案Aです")
    assert (await validate_report(validator, "advisor", recommending, "n1")).ok
    assert not (
        await validate_report(validator, "advisor", recommending, "n1", wording=report_pb2.WORDING_LINGUISTIC)
    ).ok


async def test_a_large_report_is_validated(validator: Any) -> None:
    report = organizer(decomposition_proposals=[decomposition() for _ in range(500)])
    assert (await validate_report(validator, "organizer", report, "n1")).ok


@pytest.mark.parametrize("text", ["", "{", "nope", "NaN", "[" * 50_000])
async def test_text_that_is_no_json_is_refused(validator: Any, text: str) -> None:  # V-75
    with pytest.raises(InvalidArgument) as raised:
        await validate_report(validator, "organizer", text)
    assert raised.value.reason == "REPORT_NOT_JSON"


@pytest.mark.parametrize("value", ["null", "[]", "5", '"x"'])
async def test_json_that_is_no_object_is_an_answer(validator: Any, value: str) -> None:  # V-07, V-75
    assert list((await validate_report(validator, "advisor", value)).errors) == ["report must be an object"]


async def test_half_a_surrogate_pair_does_not_break_the_answer(validator: Any) -> None:  # V-77
    result = await validate_report(validator, "organizer", '{"relation_proposals": [{"from_node_id": "\\ud800"}]}')
    assert any("�" in message for message in result.errors)


async def test_an_unknown_type_is_refused(validator: Any) -> None:  # G-28
    with pytest.raises(InvalidArgument, match=r"^type must be 'organizer' or 'advisor'$"):
        await validate_report(validator, "x", {})


async def test_a_report_is_generated_and_corrected(validator: Any, model: OpenAIServer) -> None:  # V-36, V-38, V-43
    model.script(chat_json(BROKEN), chat_json(VALID))
    run = (await validator.RunOrganizer(pb.RunOrganizerRequest(brief=brief(user_intent="急ぎ")))).run
    assert run.ok
    assert json.loads(run.report_json) == VALID
    assert run.rendered.startswith("まず")
    assert (run.retry_count, run.stop_reason) == (1, report_pb2.STOP_REASON_VALID)
    first, second = model.requests
    assert first.body["model"] == "gpt-4o-mini"
    assert first.body["temperature"] == 0.3
    assert first.body["response_format"] == {"type": "json_object"}
    assert "急ぎ" in first.prompt
    assert second.prompt.startswith(first.prompt)
    assert "【検証エラー】" in second.prompt
    assert [attempt.ok for attempt in run.attempts] == [False, True]
    assert run.usage.calls == 2
    assert run.usage.calls_without_count == 0
    assert run.usage.input_tokens == sum(attempt.usage.input_tokens for attempt in run.attempts) > 0


async def test_models_are_asked_in_the_language_of_the_setting(tmp_path: Path, model: OpenAIServer) -> None:
    model.script(chat_json(BROKEN), chat_json(VALID))
    async with validator_in(tmp_path, language="en") as validator:
        assert (await validator.RunOrganizer(pb.RunOrganizerRequest(brief=brief()))).run.ok
    first, second = model.requests
    assert "Write this report: OrganizerReport." in first.prompt
    assert "[Validation errors]" in second.prompt


async def test_an_invalid_report_is_an_answer(validator: Any, model: OpenAIServer) -> None:  # V-43, V-75, G-74
    model.answer_with(chat_json(advisor([option("A案")])))
    run = (await validator.RunAdvisor(pb.RunAdvisorRequest(brief=brief()))).run
    assert not run.ok
    assert not run.HasField("rendered")
    assert list(run.errors) == ["options must have at least 2 items"]
    assert run.stop_reason == report_pb2.STOP_REASON_REPEATED_FAULTS
    assert run.best_attempt == 1


async def test_model_failures_are_reported_without_the_key(validator: Any, model: OpenAIServer) -> None:  # V-40, V-42
    model.answer_with(error(500, "overloaded sk-abcdefgh12345678"))
    run = (await validator.RunOrganizer(pb.RunOrganizerRequest(brief=brief()))).run
    assert (run.ok, run.report_json, run.retry_count) == (False, "", 2)
    (message,) = run.errors
    assert message.startswith("OpenAI API error 500: ")
    assert "overloaded" in message
    assert "sk-abcdefgh" not in message
    assert len(model.requests) == 3  # no lower layer repeats calls
    assert not run.HasField("best_attempt")


async def test_an_empty_answer_is_named(validator: Any, model: OpenAIServer) -> None:  # V-42
    model.answer_with(chat(""))
    run = (await validator.RunOrganizer(pb.RunOrganizerRequest(brief=brief()))).run
    assert list(run.errors) == ["OpenAI API returned no content"]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (reset(), "OpenAI API call failed: "),
        (truncate(chat_json(VALID)), "OpenAI API call failed: "),
        (body(b"not json"), "OpenAI API answered something that is not JSON"),
        (body(b"[1]"), "OpenAI API returned no content"),
        (empty_choices(), "OpenAI API returned no content"),
    ],
)
async def test_a_broken_wire_costs_an_attempt(validator: Any, model: OpenAIServer, fault: Any, message: str) -> None:
    model.script(fault, chat_json(VALID))
    run = (await validator.RunOrganizer(pb.RunOrganizerRequest(brief=brief()))).run
    assert run.ok
    assert run.attempts[0].failure.startswith(message)
    assert run.usage.calls_without_count == 1


async def test_a_missing_key_is_a_failed_precondition(
    validator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:  # V-37, V-75, V-80, G-09
    monkeypatch.setenv("LLM_PROVIDER", "openai")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(FailedPrecondition, match=r"^OPENAI_API_KEY is not set$") as raised:
        await validator.RunOrganizer(pb.RunOrganizerRequest(brief=brief()))
    assert raised.value.reason == "MODEL_KEY_MISSING"


async def test_offline_a_report_run_is_marked_as_offline(validator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_PROVIDER", "offline")
    run = (await validator.RunOrganizer(pb.RunOrganizerRequest(brief=brief()))).run
    assert run.stop_reason == report_pb2.STOP_REASON_MODEL_OFFLINE
    assert "offline" in run.errors[0]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"trays": 5}'])
async def test_a_bad_dashboard_is_an_answer(validator: Any, model: OpenAIServer, text: str) -> None:  # V-33
    run = (await validator.RunAdvisor(pb.RunAdvisorRequest(brief=brief(dashboard_json=text)))).run
    assert list(run.errors) == ["dashboard is required (object with trays)"]
    assert run.stop_reason == report_pb2.STOP_REASON_DASHBOARD_INVALID
    assert model.requests == []


async def test_an_unknown_focus_is_an_answer(validator: Any, model: OpenAIServer) -> None:  # V-34
    run = (await validator.RunAdvisor(pb.RunAdvisorRequest(brief=brief(focus_node_id="zz")))).run
    assert list(run.errors) == ['focusNodeId "zz" not found in dashboard']
    assert run.stop_reason == report_pb2.STOP_REASON_TARGET_UNKNOWN


async def test_only_the_broken_parts_are_repaired(validator: Any, model: OpenAIServer) -> None:
    fixed = {"repairs": [{"pointer": "/decomposition_proposals/0", "value": decomposition()}]}
    model.script(chat_json(BROKEN), chat_json(fixed))
    options = report_pb2.RunOptions(repair=report_pb2.REPAIR_PARTIAL)
    run = (await validator.RunOrganizer(pb.RunOrganizerRequest(brief=brief(), options=options))).run
    assert run.ok
    assert run.attempts[1].repair == report_pb2.REPAIR_PARTIAL
    assert run.attempts[1].prompt_bytes < run.attempts[0].prompt_bytes + len(json.dumps(BROKEN))


async def test_a_single_call_can_be_asked_for(validator: Any, model: OpenAIServer) -> None:
    model.script(chat_json(BROKEN))
    options = report_pb2.RunOptions(max_regenerations=0)
    run = (await validator.RunOrganizer(pb.RunOrganizerRequest(brief=brief(), options=options))).run
    assert (run.ok, run.retry_count, len(model.requests)) == (False, 0, 1)


def risk_review() -> kind_pb2.ReportKind:
    rules = [
        kind_pb2.ReportRule(code="FEW_RISKS", count=kind_pb2.CountRule(path="/risks", min=1)),
        kind_pb2.ReportRule(code="NODES", reference=kind_pb2.ReferenceRule(path="/risks/*/node")),
        kind_pb2.ReportRule(code="SCORES", cel=kind_pb2.CelRule(path="/risks/*", expression="this.score <= 1.0")),
    ]
    return kind_pb2.ReportKind(name="risk-review", json_schema='{"required": ["owner"]}', rules=rules)


def register(kind: kind_pb2.ReportKind, request_id: str = "") -> pb.RegisterReportKindRequest:
    return pb.RegisterReportKindRequest(request_id=request_id or str(uuid.uuid4()), kind=kind)


async def test_own_kinds_are_registered_checked_generated_and_removed(validator: Any, model: OpenAIServer) -> None:
    registered = (await validator.RegisterReportKind(register(risk_review()))).kind
    assert registered.create_time.seconds > 0
    bad = {"risks": [{"node": "zz", "score": 1.5}]}
    result = await validate_report(validator, "risk-review", bad, "n1")
    assert [finding.code for finding in result.findings] == ["SCHEMA_REQUIRED", "NODES", "SCORES"]

    good = {"owner": "佐藤", "risks": [{"node": "n1", "score": 0.5}]}
    model.script(chat_json(bad), chat_json(good))
    request = pb.RunReportRequest(type="risk-review", inputs_json='{"topic": "移行"}', valid_node_ids=["n1"])
    run = (await validator.RunReport(request)).run
    assert (run.ok, run.retry_count, json.loads(run.report_json)) == (True, 1, good)

    listed = await validator.ListReportKinds(pb.ListReportKindsRequest())
    assert [kind.name for kind in listed.kinds] == ["risk-review"]
    assert (await validator.GetReportKind(pb.GetReportKindRequest(name="risk-review"))).kind == registered
    await validator.DeleteReportKind(pb.DeleteReportKindRequest(request_id=str(uuid.uuid4()), name="risk-review"))
    with pytest.raises(NotFound):
        await validator.GetReportKind(pb.GetReportKindRequest(name="risk-review"))


async def test_built_in_kinds_are_made_from_dashboards(validator: Any) -> None:
    with pytest.raises(InvalidArgument, match="call RunOrganizer with a dashboard"):
        await validator.RunReport(pb.RunReportRequest(type="organizer", inputs_json="{}"))


@pytest.mark.parametrize("text", ["", "[]", "nope"])
async def test_inputs_must_be_an_object(validator: Any, text: str) -> None:
    await validator.RegisterReportKind(register(risk_review()))
    with pytest.raises(InvalidArgument, match="inputs_json must be the JSON text of an object"):
        await validator.RunReport(pb.RunReportRequest(type="risk-review", inputs_json=text))


async def test_registering_is_idempotent_and_names_are_taken_once(validator: Any) -> None:
    request = register(risk_review())
    assert await validator.RegisterReportKind(request) == await validator.RegisterReportKind(request)
    with pytest.raises(AlreadyExists) as raised:
        await validator.RegisterReportKind(register(risk_review()))
    assert raised.value.reason == "REPORT_KIND_EXISTS"
    other = risk_review()
    other.name = "other"
    with pytest.raises(AlreadyExists) as raised:
        await validator.RegisterReportKind(register(other, request.request_id))
    assert raised.value.reason == "REQUEST_ID_REUSED"


async def test_a_kind_that_does_not_compile_is_refused_with_each_fault(validator: Any) -> None:
    kind = risk_review()
    kind.json_schema = '{"$ref": "https://example.com"}'
    kind.rules[2].cel.expression = "1 +"
    with pytest.raises(InvalidArgument) as raised:
        await validator.RegisterReportKind(register(kind))
    fields = [violation.field for violation in raised.value.violations]
    assert fields == ["kind.json_schema", "kind.rules[2].cel.expression"]


async def test_own_kinds_survive_a_restart(tmp_path: Path) -> None:
    async with validator_in(tmp_path) as validator:
        await validator.RegisterReportKind(register(risk_review()))
    async with validator_in(tmp_path) as validator:
        assert not (await validate_report(validator, "risk-review", {}, "n1")).ok


@pytest.mark.parametrize(
    ("method", "request_message", "field"),
    [
        ("ValidateReport", pb.ValidateReportRequest(type="organizer", report_json="x" * 1_000_001), "report_json"),
        ("RunOrganizer", pb.RunOrganizerRequest(), "brief"),
        ("RegisterReportKind", pb.RegisterReportKindRequest(request_id="no uuid", kind=risk_review()), "request_id"),
        (
            "RunReport",
            pb.RunReportRequest(type="organizer", inputs_json="{}", options=report_pb2.RunOptions(repair=9)),  # type: ignore[arg-type]
            "options.repair",
        ),
    ],
)
async def test_requests_that_break_the_contract_are_refused(
    validator: Any, method: str, request_message: Any, field: str
) -> None:
    with pytest.raises(InvalidArgument) as raised:
        await getattr(validator, method)(request_message)
    assert [violation.field for violation in raised.value.violations] == [field]


async def test_errors_have_the_status_of_the_contract(tmp_path: Path) -> None:  # V-75
    settings = ValidatorSettings(validator_database_url=str(tmp_path / "leaderboard.db"))
    async with serve(build(settings, Peers({}))) as running, grpc.aio.insecure_channel(running.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await rpc.ValidatorServiceStub(channel).ValidateReport(
                pb.ValidateReportRequest(type="organizer", report_json="{")
            )
        assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
