"""The MCP server in revision 2026-07-28 and the one before it, with the official client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from mcp import Client as McpClient
from mcp_types import ElicitRequestFormParams, ElicitResult
from opentelemetry import trace

from chassis.errors import shorten
from chassis.settings import BadSetting
from hansei.a2a_server.tasks import build_task
from hansei.client.errors import FailedPrecondition
from hansei.client.plan_questions import format_question
from hansei.mcp_server.plans import _build_plan_answer
from hansei.mcp_server.server import create_server
from hansei.mcp_server.transports import serve_http
from hansei.planner.v1 import planner_pb2 as pb
from hansei.planner.v1 import planner_service_pb2 as service
from hansei.search.v1.search_service_pb2 import SearchResponse

MODES = {"2026-07-28": "2026-07-28", "auto": "2026-07-28", "legacy": "2025-11-25"}
TRACE = "0af7651916cd43dd8448eb211c80319c"


class ScriptedPlanner:
    """A planner whose plans ask two questions before they end."""

    def __init__(self, questions: int = 2) -> None:
        self.questions = questions
        self.answers: dict[str, pb.InterventionResponse] = {}
        self.plans = 0

    async def create_plan(self, **fields: Any) -> service.CreatePlanResponse:
        self.plans += 1
        return service.CreatePlanResponse(plan=pb.Plan(original_query=fields["query"], plan_id="0123456789ab"))

    async def execute_plan(self, **fields: Any) -> AsyncIterator[service.ExecutePlanResponse]:
        yield service.ExecutePlanResponse(event=pb.ExecutionEvent(execution_id=fields["plan"].plan_id))

    async def resume_plan(self, **fields: Any) -> AsyncIterator[service.ResumePlanResponse]:
        if fields["request_id"] in self.answers:
            return
        if fields["answer_token"] != f"token-{len(self.answers)}":
            raise FailedPrecondition("the question was answered before")
        self.answers[fields["request_id"]] = fields["response"]
        yield service.ResumePlanResponse(event=pb.ExecutionEvent(execution_id=fields["execution_id"]))

    async def get_execution(self, execution_id: str) -> service.GetExecutionResponse:
        execution = pb.Execution(execution_id=execution_id, status=pb.EXECUTION_STATUS_PAUSED)
        number = len(self.answers)
        if number == self.questions:
            execution.status = pb.EXECUTION_STATUS_SUCCESS
            execution.result.final_answer = "done"
        else:
            question = execution.intervention_request
            question.message, question.plan_version, question.step_id = f"Question {number}?", 1, 2
            question.answer_token = f"token-{number}"
            question.options.extend(["yes", "no"])
        return service.GetExecutionResponse(execution=execution)


class Person:
    """Answers the questions of a client, and keeps them."""

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.questions: list[str] = []

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        self.questions.append(params.message)
        answer = self.answers.pop(0)
        if answer is None:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content={"answer": answer})


def serve(planner: ScriptedPlanner) -> Any:
    return create_server(SimpleNamespace(planner=planner), "d")  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", MODES)
async def test_both_revisions_are_served(mode: str) -> None:
    async with McpClient(serve(ScriptedPlanner()), mode=mode) as client:
        assert client.protocol_version == MODES[mode]
        if mode != "2026-07-28":  # a client that names the revision does not call `server/discover`
            assert client.server_info is not None
            assert client.server_info.name == "hansei"
            assert client.instructions is not None
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert {"search_playbook", "run_plan", "answer_question"} <= set(tools)
    assert set(tools["run_plan"].input_schema["properties"]) == {"query", "collection"}
    assert "execution_id" in tools["run_plan"].output_schema["properties"]  # type: ignore[index]


@pytest.mark.parametrize("mode", MODES)
async def test_the_questions_of_a_plan_reach_the_person(mode: str) -> None:
    planner, person = ScriptedPlanner(), Person("yes", "on Friday")
    async with McpClient(serve(planner), mode=mode, elicitation_callback=person) as client:
        result = await client.call_tool("run_plan", {"query": "Commit the log."})
    assert not result.is_error, result.content
    assert result.structured_content == {
        "execution_id": "0123456789ab",
        "status": "success",
        "answer": "done",
        "confidence": 0.0,
        "question": "",
        "options": [],
    }
    assert person.questions == ["Question 0?\nOptions: yes | no", "Question 1?\nOptions: yes | no"]
    first, second = planner.answers.values()
    assert first.selected_option == "yes"
    assert second.user_input == "on Friday"
    assert planner.plans == 1


async def test_a_question_names_its_step_the_result_and_the_confidence() -> None:
    question = pb.InterventionRequest(
        message="The confidence of step 2 (Answer) is 0.57", question="Continue?", step_id=2, options=["Yes", "Cancel"]
    )
    results = [pb.StepResult(step_id=1, output="other"), pb.StepResult(step_id=2, output="first\n" + "x" * 500)]
    lines = format_question(question, results).splitlines()
    assert lines == [
        "The confidence of step 2 (Answer) is 0.57",
        f"Result of step 2: {shorten('first ' + 'x' * 500, 400)}",
        "Continue?",
        "Options: Yes | Cancel",
    ]
    execution = pb.Execution(execution_id="0123456789ab", intervention_request=question, step_results=results)
    execution.status = pb.EXECUTION_STATUS_PAUSED
    (part,) = build_task(execution).status.message.parts
    assert part.text.splitlines() == lines
    assert _build_plan_answer(execution).question.splitlines() == lines


@pytest.mark.parametrize("mode", MODES)
async def test_a_person_who_declines_leaves_the_plan_paused(mode: str) -> None:
    planner = ScriptedPlanner()
    async with McpClient(serve(planner), mode=mode, elicitation_callback=Person(None)) as client:
        result = await client.call_tool("run_plan", {"query": "q"})
    assert result.structured_content is not None
    assert result.structured_content["status"] == "paused"
    assert planner.answers == {}


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_without_elicitation_gets_the_question(mode: str) -> None:
    planner = ScriptedPlanner(questions=1)
    async with McpClient(serve(planner), mode=mode) as client:
        result = await client.call_tool("run_plan", {"query": "q"})
        assert result.structured_content is not None
        assert result.structured_content["status"] == "paused"
        assert result.structured_content["question"] == "Question 0?\nOptions: yes | no"
        answer = {"execution_id": result.structured_content["execution_id"], "answer": "no"}
        for _ in range(2):  # a repeat answers nothing again
            result = await client.call_tool("answer_question", answer)
            assert result.structured_content is not None
            assert result.structured_content["status"] == "success"
    assert len(planner.answers) == 1


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_a_call_continues_the_trace_of_its_client(mode: str) -> None:
    traces = []

    async def search(*arguments: Any, **options: Any) -> SearchResponse:
        traces.append(f"{trace.get_current_span().get_span_context().trace_id:032x}")
        return SearchResponse()

    async with McpClient(create_server(SimpleNamespace(search=search), "d"), mode=mode) as client:  # type: ignore[arg-type]
        meta: Any = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
        result = await client.call_tool("search_playbook", {"query": "q"}, meta=meta)
        assert not result.is_error, result.content
    assert traces == [TRACE]


@pytest.mark.parametrize(
    ("address", "options", "rule"),
    [
        ("0.0.0.0:0", {}, "does not authenticate its callers"),
        ("0.0.0.0:0", {"authenticates": True}, "could read the tokens"),
        ("0.0.0.0:0", {"authenticates": True, "public_url": "http://memory.example.com/mcp"}, "could read the tokens"),
        ("127.0.0.1:0", {"public_url": "memory.example.com"}, "is not a URL"),
    ],
)
async def test_an_unprotected_address_is_refused(address: str, options: dict[str, Any], rule: str) -> None:
    with pytest.raises(BadSetting, match=rule):
        await serve_http(lambda url: serve(ScriptedPlanner()), address, [], print, **options)
