from __future__ import annotations

import re

import pytest

from libs.trajectories.actions import extract_actions
from services.reflector.domain.attribution import WEIGHTS, rank_candidates
from services.reflector.domain.causes import classify_cause
from services.reflector.domain.findings import TrajectoryFinding
from services.reflector.domain.language import detect_language
from services.reflector.domain.repairs import find_repairs
from services.reflector.domain.wording import LanguageTexts, load_wording, write_attribution, write_lesson
from services.reflector.tests.trajectories import asks, build_trajectory, calls, returns, says, steps

ENGLISH, JAPANESE = load_wording("en"), load_wording("ja")
CALL = {
    "tool": "book",
    "agent": "agent",
    "step": "3",
    "message": "Error: card {x} declined",
    "kind": "Error: card {x} declined",
    "count": "2",
    "arguments": '{"card": 1}',
    "fixed_step": "5",
}
ENDING = {"agent": "agent", "step": "4", "quote": "It is {done}", "values": "", "tool": "book", "failed_step": "3"}
PARTING = {
    "query": "book a seat",
    "worked_tool": "book",
    "worked_arguments": "{2B}",
    "failed_tool": "book",
    "failed_arguments": "{1A}",
    "changes": "`seat`",
}
REPAIR = find_repairs(
    extract_actions(steps(calls("book", {"card": 1, "for": "mia"}), returns("Error: declined"),
                     calls("cards", {}), returns("2"),
                     calls("book", {"card": 2, "for": "mia"}), returns("{}")))
)[0]  # fmt: skip

FINDINGS = [
    TrajectoryFinding("tool_error", (3,), CALL),
    TrajectoryFinding("tool_error", (3,), CALL, repair=REPAIR),
    TrajectoryFinding("tool_error", (3,), CALL, repair=REPAIR, is_success=True),
    TrajectoryFinding("repeated_call", (3,), CALL),
    TrajectoryFinding("contradicted_claim", (4,), {**ENDING, "message": "Error: declined"}),
    TrajectoryFinding("unverified_answer", (4,), ENDING),
    TrajectoryFinding("unverified_answer", (4,), {**ENDING, "values": "42"}),
    TrajectoryFinding("refusal", (4,), ENDING),
    TrajectoryFinding("trajectory_error", (4,), {"message": "Timeout", "kind": "Timeout"}),
    TrajectoryFinding("contrast", (2,), PARTING),
    TrajectoryFinding("contrast", (2,), {**PARTING, "failed_tool": "", "failed_arguments": ""}),
    TrajectoryFinding("contrast", (2,), {**PARTING, "worked_tool": "", "worked_arguments": ""}),
]


@pytest.mark.parametrize("wording", [ENGLISH, JAPANESE], ids=["en", "ja"])
@pytest.mark.parametrize("finding", FINDINGS, ids=lambda finding: finding.kind)
def test_every_finding_fills_all_five_texts_in_both_languages(
    finding: TrajectoryFinding, wording: LanguageTexts
) -> None:
    insight = write_lesson(finding, wording)
    japanese = wording is JAPANESE
    for text in (
        insight.reasoning,
        insight.error_identification,
        insight.root_cause_analysis,
        insight.correct_approach,
        insight.key_insight,
    ):
        assert len(text) > 8
        assert bool(re.search("[ぁ-ん]", text)) is japanese
        assert "  " not in text
    assert insight.steps == finding.steps
    assert insight.section


def test_a_lesson_of_an_error_names_operation_and_kind_but_no_value() -> None:
    key_insight = write_lesson(TrajectoryFinding("tool_error", (3,), CALL, repair=REPAIR), ENGLISH).key_insight
    assert "`book`" in key_insight
    assert "Error: card {x} declined" in key_insight
    assert "Repair" not in key_insight
    assert '"1"' not in key_insight


def test_the_repair_in_a_failure_is_shown_with_a_caution() -> None:
    log = [calls("git", {"command": "git push"}), returns("error: rejected"),
           calls("git", {"command": "git push --force"}), returns("exit code 0")]  # fmt: skip
    repair = find_repairs(extract_actions(steps(*log)))[0]
    failed = write_lesson(TrajectoryFinding("tool_error", (1,), CALL, repair=repair), ENGLISH)
    assert "--force" not in failed.key_insight
    assert "The trajectory still failed" in failed.correct_approach


def test_the_languages_have_the_same_lessons_causes_and_signs() -> None:
    assert ENGLISH.lessons.keys() == JAPANESE.lessons.keys()
    assert ENGLISH.advice.keys() == JAPANESE.advice.keys()
    assert ENGLISH.blame.keys() == JAPANESE.blame.keys()
    assert set(ENGLISH.blame) == {sign for sign, weight in WEIGHTS.items() if weight > 0} | {"returns", None}


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("SyntaxError: invalid syntax", "syntax"),
        ("HTTP 403 Forbidden", "denied"),
        ("HTTP 429 Too Many Requests", "network"),
        ("TypeError: 'NoneType' object is not iterable", "shape"),
        ("payment method <id> not found", "missing"),
        ("payment amount does not add up", "mismatch"),
        ("gift card balance is not enough", "shortage"),
        ("flight <id> not available on date <date>", "state"),
        ("certificate cannot be used to update reservation", "unsupported"),
        ("残高が不足しています", "shortage"),
        ("Error: 17", "other"),
    ],
)
def test_causes_are_classified_by_the_words_of_the_message(kind: str, cause: str) -> None:
    assert classify_cause(kind) == cause


def test_the_language_is_that_of_the_people_and_agents() -> None:
    assert detect_language(build_trajectory(asks("git で commit してください"), says("設定して行います"))) == "ja"
    assert (
        detect_language(
            build_trajectory(asks("Translate 東京 and 大阪 into English, please."), says("Tokyo and Osaka."))
        )
        == "en"
    )
    assert detect_language(build_trajectory(asks("请帮我预订航班"), query="请帮我预订航班")) == "en"
    assert detect_language(build_trajectory(asks("sum it"), returns("合計です。" * 100))) == "en"


def test_blame_names_step_agent_and_the_heaviest_sign() -> None:
    log = steps(asks("find it"), says("I will look.", name="A"), says("Therefore the answer is 17.", name="B"))
    candidate, _ = rank_candidates(log, extract_actions(log))[0]
    blamed = write_attribution([(candidate, 0.75), (candidate, 0.25)], ENGLISH)
    assert (blamed.step, blamed.agent) == (2, "B")
    assert blamed.reason == ENGLISH.blame["claims"]
    assert (blamed.probability, [other.probability for other in blamed.alternatives]) == (0.75, [0.25])
