"""Results of benchmarks: STATE-Bench (issue 24, item 1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from libs.trajectories.actions import extract_actions
from services.reflector.adapters.importers.files import read_trajectories
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.outcome import Outcome, determine_outcome
from services.reflector.domain.recorded_trajectory import Format, RecordedTrajectory

EXAMPLES = Path(__file__).parents[3] / "examples/formats"


def load(name: str) -> Any:
    return json.loads((EXAMPLES / name).read_text(encoding="utf-8"))


def read(document: object, format_: Format) -> RecordedTrajectory:
    file = read_trajectories(json.dumps(document).encode(), "given")
    assert file.format == format_
    (recorded,) = file.trajectories
    return recorded


def outcome(recorded: RecordedTrajectory) -> Outcome:
    return determine_outcome(recorded.trajectory, recorded.ground_truth, recorded.test_report)


def refusal(document: object, format_: Format | None = None) -> str:
    with pytest.raises(MalformedTrajectory) as refused:
        read_trajectories(json.dumps(document).encode(), "given", format_)
    return str(refused.value)


class TestStateBench:
    """Results as state_bench/schemas.py writes them: scored, not yet scored, and a conversation alone."""

    def test_a_call_precedes_its_result_and_the_text_of_a_turn_follows_its_calls(self) -> None:
        trajectory = read(load("state_bench.json"), "state_bench").trajectory
        assert [(step.role, step.name, step.source) for step in trajectory.steps] == [
            ("user", "", "conversation[0]"),
            ("assistant", "", "conversation[1].tool_calls[0]"),
            ("tool", "extend_loan", "conversation[1].tool_calls[0].result"),
            ("assistant", "", "conversation[1].tool_calls[1]"),
            ("tool", "list_loans", "conversation[1].tool_calls[1].result"),
            ("assistant", "", "conversation[1].tool_calls[2]"),
            ("tool", "extend_loan", "conversation[1].tool_calls[2].result"),
            ("assistant", "", "conversation[1]"),
            ("user", "", "conversation[2]"),
            ("assistant", "", "conversation[3]"),
        ]
        assert trajectory.query == "Please extend my loan of The Sea by two weeks."
        assert trajectory.generated_answer == "You are welcome."
        actions = extract_actions(trajectory.steps)
        assert [(action.tool, action.is_success) for action in actions] == [
            ("extend_loan", False), ("list_loans", True), ("extend_loan", True),
        ]  # fmt: skip
        assert actions[2].arguments == '{"loan_id": "LOAN-31", "days": 13}'

    def test_the_score_is_the_outcome_and_is_named_as_its_source(self) -> None:
        recorded = read(load("state_bench.json"), "state_bench")
        assert (recorded.trajectory.task_id, recorded.trajectory.status) == ("7-extend_loan", "failure")
        assert outcome(recorded) == Outcome(False, "test_report")
        assert recorded.test_report == (
            "Failed.\n"
            "Source: STATE-Bench's task_completion_pass is 0 (state_requirements_met 0, task_requirements_met 1)."
        )
        passed = read(load("state_bench.json") | {"task_completion_pass": 1}, "state_bench")
        assert outcome(passed) == Outcome(True, "test_report")

    @pytest.mark.parametrize(("passed", "is_success"), [(True, True), (False, False)])
    def test_a_plain_verdict_is_the_outcome(self, passed: bool, is_success: bool) -> None:
        conversation = load("state_bench.json")["conversation"]
        document = {"domain": "library", "task_id": "7", "passed": passed, "conversation": conversation}
        recorded = read(document, "state_bench")
        assert outcome(recorded) == Outcome(is_success, "test_report")
        assert recorded.test_report.endswith(f"Source: STATE-Bench's passed is {json.dumps(passed)}.")

    def test_a_result_without_a_score_has_no_proven_outcome(self) -> None:
        unscored = load("state_bench.json") | {"task_completion_pass": None}
        alone = {"conversation": unscored["conversation"]}
        for document in (unscored, alone):
            recorded = read(document, "state_bench")
            assert (outcome(recorded), recorded.test_report) == (Outcome(True, "self_report"), "")
        stopped = read(alone | {"error": "max tool rounds"}, "state_bench")
        assert (outcome(stopped), stopped.trajectory.error_message) == (
            Outcome(False, "self_report"),
            "max tool rounds",
        )

    def test_results_are_read_one_a_line(self) -> None:
        lines = "\n".join(json.dumps(load("state_bench.json") | {"task_id": str(number)}) for number in range(3))
        file = read_trajectories(lines.encode(), "given")
        assert [recorded.trajectory.task_id for recorded in file.trajectories] == ["0", "1", "2"]
        assert len({recorded.trajectory.id for recorded in file.trajectories}) == 3

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            ({"conversation": []}, "trajectory.conversation: a list must be a list that is not empty"),
            ({"conversation": {}}, "trajectory.conversation: an object must be a list that is not empty"),
            ({"conversation": [{"role": "tool"}]}, "trajectory.conversation[0].role: 'tool' must be one of"),
            ({"conversation": [{"role": "user"}]}, "trajectory.query: '' is empty"),
            (
                {"conversation": [{"role": "assistant", "content": "a", "tool_calls": {"name": "x"}}]},
                "conversation[0].tool_calls: an object must be a list",
            ),
            (
                {"conversation": [{"role": "assistant", "content": "a", "tool_calls": [{"arguments": {}}]}]},
                "conversation[0].tool_calls[0].name: null must name the tool",
            ),
            ({"task_completion_pass": "yes"}, "trajectory.task_completion_pass: 'yes' must be true, false, 0 or 1"),
            ({"state_requirements_met": 2}, "trajectory.state_requirements_met: 2 must be true, false, 0 or 1"),
            ({"error": ["a"]}, "trajectory.error: a list must be text"),
        ],
    )
    def test_broken_results_are_refused_with_position_and_field(self, change: dict[str, Any], problem: str) -> None:
        assert problem in refusal(load("state_bench.json") | change, "state_bench")

    def test_a_truncated_line_is_named_and_nothing_is_read(self) -> None:
        line = json.dumps(load("state_bench.json"))
        with pytest.raises(MalformedTrajectory, match=r"line 2: .* is not JSON"):
            read_trajectories(f"{line}\n{line[:200]}\n".encode(), "given")
