"""Files that the libraries of other programs wrote (openai-agents 0.24, langsmith 0.15, langfuse 5.0, smolagents 1.26,
opentelemetry-sdk 1.45, with scripted models), and files of no library: tau2-bench and Cursor."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from services.reflector.adapters.importers.files import MAX_FILE_BYTES, read_trajectories
from services.reflector.domain.errors import MalformedTrajectory, UnknownFormat
from services.reflector.domain.recorded_trajectory import RecordedTrajectory

RECORDED = Path(__file__).parent / "files/recorded"
EXAMPLES = Path(__file__).parents[3] / "examples/formats"
FILES = sorted(RECORDED.iterdir())


def read(file: Path) -> RecordedTrajectory:
    (recorded,) = read_trajectories(file.read_bytes(), "d").trajectories
    return recorded


def texts(recorded: RecordedTrajectory) -> list[tuple[str, str, str]]:
    """Return the steps, a step with a call as the call."""
    return [
        (step.role, step.name, " ".join(f"{call.name}({call.arguments})" for call in step.tool_calls) or step.content)
        for step in recorded.trajectory.steps
    ]


ASKED = ("user", "", "invert something")
GAVE_UP = [
    ASKED,
    ("assistant", "solver", 'invert({"x": 0})'),
    ("tool", "invert", "Error: x must not be 0"),
    ("assistant", "solver", "I could not."),
]
LANGFUSE = [
    ("system", "", "Be brief"),
    ASKED,
    ("assistant", "solver", 'invert({"x": 0})'),
    ("tool", "invert", "Error: x must not be 0"),
    ("assistant", "solver", 'invert({"x": 2})'),
    ("tool", "invert", "0.5"),
    ("assistant", "solver", "It is 0.5."),
]
STEPS: dict[str, list[tuple[str, str, str]]] = {
    "agents_sdk-tools.jsonl": [
        ("system", "", "Be brief"),
        ASKED,
        ("assistant", "Solver", 'invert({"x": 0})'),
        ("tool", "invert", "Error: An error occurred while running the tool. Please try again."),
        ("assistant", "Solver", 'invert({"x": 2})'),
        ("tool", "invert", "0.5"),
        ("assistant", "Solver", "It is 0.5."),
    ],
    "agents_sdk-handoff.jsonl": [
        ("user", "", "help me"),
        ("assistant", "Front", "transfer_to_helper({})"),
        ("tool", "transfer_to_helper", '{"assistant": "Helper"}'),
        ("assistant", "Helper", "Done by the helper."),
    ],
    "agents_sdk-error.jsonl": [("user", "", "help")],
    "langfuse-response.json": LANGFUSE,
    "langfuse-scores.jsonl": LANGFUSE,
    "langfuse-person.jsonl": LANGFUSE,
    "langsmith-agent.jsonl": [
        ASKED,
        ("assistant", "", 'invert({"x": 4})'),
        ("tool", "invert", "0.25"),
        ("assistant", "", 'invert({"x": 2})'),
        ("tool", "invert", "0.5"),
        ("assistant", "", "It is 0.5."),
    ],
    "langsmith-error.jsonl": [
        ("user", "", "System: Be brief\nHuman: invert zero"),
        ("assistant", "", 'invert({"x": 0})'),
        ("tool", "invert", "Error: ValueError('x must not be 0')"),
    ],
    "langsmith-model.jsonl": [("user", "", "System: s\nHuman: hi"), ("assistant", "", "hello")],
    "otel-events.jsonl": GAVE_UP,
    "otel-logs.jsonl": [(role, name.replace("solver", ""), text) for role, name, text in GAVE_UP],
    "smolagents-code.json": [
        ASKED,
        ("assistant", "", "python_interpreter(print(invert(0)))"),
        (
            "tool",
            "python_interpreter",
            "Error: Code execution failed at line 'print(invert(0))' due to: ZeroDivisionError: division by zero",
        ),
        ("assistant", "", "python_interpreter(final_answer(invert(2)))"),
        ("tool", "python_interpreter", "Execution logs:\nLast output from code snippet:\n0.5"),
    ],
}
OUTCOMES: dict[str, tuple[str, float | None, str, str | None]] = {
    "agents_sdk-tools.jsonl": ("success", None, "", None),
    "agents_sdk-handoff.jsonl": ("success", None, "", None),
    "agents_sdk-error.jsonl": ("failure", None, "", "Error in agent run"),
    "langfuse-response.json": ("success", None, "", None),
    "langfuse-scores.jsonl": (
        "failure",
        0.2,
        "Failed.\nSource: Langfuse's score correctness is 0.2 (wrong unit).",
        None,
    ),
    "langfuse-person.jsonl": (
        "success",
        1.0,
        "Passed.\nSource: Langfuse's score user-feedback by a person is True.",
        None,
    ),
    "langsmith-agent.jsonl": ("success", 1.0, "Passed.\nSource: LangSmith's score correctness is 1.0.", None),
    "langsmith-error.jsonl": ("failure", None, "", "ValueError('x must not be 0')"),
    "langsmith-model.jsonl": ("success", None, "", None),
    "otel-events.jsonl": ("failure", 0.0, "fail.\nSource: the evaluation correctness is 0 (no answer).", None),
    "otel-logs.jsonl": ("failure", 0.0, "fail.\nSource: the evaluation correctness is 0 (no answer).", None),
    "smolagents-code.json": ("success", None, "", None),
    "smolagents-tools.json": ("success", None, "", None),
    "smolagents-max_steps.json": ("failure", None, "", "Reached max steps."),
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_format_is_found_and_the_outcome_has_its_source(file: Path) -> None:
    parsed = read_trajectories(file.read_bytes(), "d")
    assert parsed.format == file.name.partition("-")[0]
    (recorded,) = parsed.trajectories
    trajectory = recorded.trajectory
    assert (trajectory.status, trajectory.reward, recorded.test_report, trajectory.error_message) == OUTCOMES[file.name]
    assert trajectory.query
    assert trajectory.dataset == "d"


@pytest.mark.parametrize("name", STEPS)
def test_each_message_of_the_conversation_is_one_step(name: str) -> None:
    assert texts(read(RECORDED / name)) == STEPS[name]


def test_a_feedback_beside_the_runs_decides() -> None:
    lines = (RECORDED / "langsmith-agent.jsonl").read_text().splitlines()
    root = json.loads(lines[0])
    feedback = {"key": "correctness", "run_id": root["id"], "score": 0, "comment": "wrong unit", "id": "f"}
    person = {**feedback, "key": "user_score", "score": None, "value": "good", "feedback_source": {"type": "app"}}
    for extra, expected in (([feedback], "is 0 (wrong unit)"), ([person, feedback], "user_score by a person is good")):
        content = "\n".join([*lines, *map(json.dumps, extra)]).encode()
        (recorded,) = read_trajectories(content, "d").trajectories
        assert expected in recorded.test_report


@pytest.mark.parametrize(
    ("name", "value"), [("toxicity", 0.0), ("cost", 0.4), ("correctness", 4), ("correctness", None)]
)
def test_a_score_that_says_nothing_about_the_task_is_no_outcome(name: str, value: object) -> None:
    lines = (RECORDED / "langfuse-scores.jsonl").read_text().splitlines()
    score = {**json.loads(lines[-1]), "name": name, "value": value}
    content = "\n".join([*lines[:-2], json.dumps(score)]).encode()
    (recorded,) = read_trajectories(content, "d").trajectories
    assert (recorded.trajectory.reward, recorded.test_report) == (None, "")


def test_a_trace_of_langfuse_with_its_observations_is_read() -> None:
    objects = [json.loads(line) for line in (RECORDED / "langfuse-scores.jsonl").read_text().splitlines()]
    trace = {"id": "t-2", "name": "solver", "observations": objects[:-2], "scores": objects[-2:]}
    (recorded,) = read_trajectories(json.dumps(trace).encode(), "d").trajectories
    assert texts(recorded) == LANGFUSE
    assert recorded.trajectory.reward == 0.2


def test_a_simulation_of_tau2_bench_is_read() -> None:
    recorded = read(EXAMPLES / "tau2_bench.json")
    assert (recorded.trajectory.status, recorded.trajectory.reward, recorded.trajectory.task_id) == (
        "failure",
        0.0,
        "shop_1",
    )
    source = "tau2-bench's reward is 0; not met: The agent refuses the refund"
    assert recorded.test_report == f"Failed.\nSource: {source}."
    assert texts(recorded)[2:6] == [
        ("assistant", "", 'refund({"order": "A1"})'),
        ("tool", "refund", "Error: order A1 is not delivered"),
        ("assistant", "", 'refund({"order": "A1", "force": true})'),
        ("tool", "refund", "refunded"),
    ]
    assert texts(recorded)[7:9] == [("user", "", "check_account({})"), ("tool", "check_account", "balance 20")]


def test_a_simulation_that_was_broken_off_is_a_failure_without_a_reward() -> None:
    document = json.loads((EXAMPLES / "tau2_bench.json").read_text())["simulations"][0]
    document |= {"reward_info": None, "termination_reason": "too_many_errors"}
    (recorded,) = read_trajectories(json.dumps(document).encode(), "d").trajectories
    assert (recorded.trajectory.status, recorded.trajectory.reward) == ("failure", None)
    assert recorded.trajectory.error_message == "The conversation ended by too_many_errors."


def test_a_transcript_of_cursor_is_read() -> None:
    recorded = read(EXAMPLES / "cursor.jsonl")
    assert recorded.trajectory.query == "Add zod to the shop."
    assert recorded.trajectory.generated_answer == "zod is added."
    assert texts(recorded)[1] == ("assistant", "", 'Shell({"command": "npm install zod"})')


def test_spans_without_contents_say_what_to_write_instead() -> None:
    span = json.loads((RECORDED / "agents_sdk-handoff.jsonl").read_text().splitlines()[0])
    span["span_data"] = {"type": "response", "response_id": "resp_1"}
    with pytest.raises(MalformedTrajectory, match=r"write result\.to_input_list\(\) instead"):
        read_trajectories(json.dumps(span).encode(), "d")


def change_lines(name: str, change: Callable[[dict[str, Any]], object]) -> bytes:
    objects = [json.loads(line) for line in (RECORDED / name).read_text().splitlines()]
    change(objects[1])
    return "\n".join(map(json.dumps, objects)).encode()


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("agents_sdk-tools.jsonl", {"started_at": "soon"}, "line 2.started_at: 'soon' must be a time in ISO 8601"),
        ("agents_sdk-tools.jsonl", {"span_data": None}, "line 2.span_data: null must be an object"),
        ("agents_sdk-tools.jsonl", {"trace_id": ""}, "line 2.trace_id: '' must name the trace"),
        ("agents_sdk-tools.jsonl", {"object": "x"}, "line 2.object: 'x' must be trace or trace.span"),
        ("langsmith-agent.jsonl", {"dotted_order": 5}, "line 2.dotted_order: 5 must be text"),
        ("langsmith-agent.jsonl", {"inputs": []}, "line 2.inputs: a list must be a JSON object"),
        ("langfuse-scores.jsonl", {"startTime": None}, "line 2.startTime: null must be text"),
        ("langfuse-scores.jsonl", {"input": '[{"role": "x"}]'}, "line 2.input[0].role: 'x' must be one of system"),
        ("otel-events.jsonl", {"resourceLogs": None, "resourceSpans": 5}, "line 2.resourceSpans: 5 must be a list"),
    ],
)
def test_an_object_of_another_shape_is_refused_with_line_and_field(
    name: str, change: dict[str, Any], problem: str
) -> None:
    with pytest.raises(MalformedTrajectory) as caught:
        read_trajectories(change_lines(name, lambda record: record.update(change)), "d")
    assert problem in caught.value.message


@pytest.mark.parametrize(
    "file", [*FILES, EXAMPLES / "tau2_bench.json", EXAMPLES / "cursor.jsonl"], ids=lambda f: f.name
)
def test_a_file_that_was_cut_off_is_refused_with_its_place(file: Path) -> None:
    content = file.read_bytes().rstrip()
    with pytest.raises((MalformedTrajectory, UnknownFormat)) as caught:
        read_trajectories(content[: len(content) - 20], "d")
    assert "is not JSON" in caught.value.message


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_parents_that_form_a_circle_end(file: Path) -> None:
    text = file.read_text()
    for name in ("parent_id", "parent_run_id", "parentObservationId", "parentSpanId"):
        own = {"parentObservationId": "id", "parentSpanId": "spanId"}.get(name, "id")
        if f'"{name}"' not in text:
            continue
        objects = [json.loads(line) for line in text.splitlines()] if file.suffix == ".jsonl" else json.loads(text)
        for record in objects if isinstance(objects, list) else objects["data"]:
            if name in record or own in record:
                record[name] = record.get(own, "x")
        content = "\n".join(map(json.dumps, objects)) if file.suffix == ".jsonl" else json.dumps(objects)
        read_trajectories(content.encode(), "d")


def test_a_file_above_the_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(MalformedTrajectory, match="is too large"):
        read_trajectories(b" " * (MAX_FILE_BYTES + 1), "d")
