"""The judge that works without a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from libs.prompts.contexts import ImprovementJudgment
from services.validator.domain.rule_judge import NOTE, choose_preference, judge_prospects, score_text
from services.validator.usecases.compare import JudgedPreference
from services.validator.usecases.judge_by_rules import RuleJudge
from services.validator.usecases.metrics import JudgedScore
from services.validator.usecases.ports import JudgeQuestion, QuestionSubject

QUERY = "社内の勉強会を続けるには"


def test_a_submission_about_the_query_scores_higher() -> None:
    about = score_text(QUERY, "社内の勉強会を月に一度続ける案です。勉強会の担当を交代で決めます。")
    beside = score_text(QUERY, "天気がよいので散歩に行きました。")
    assert about.coverage > beside.coverage
    assert about.relevance > beside.relevance
    assert choose_preference(QUERY, "天気がよい。", "社内の勉強会を続ける。") == "second"
    assert choose_preference(QUERY, "社内の勉強会。", "社内の勉強会。") == "tie"


@given(query=st.text(max_size=60), submission=st.text(max_size=200))
def test_scores_are_always_scores(query: str, submission: str) -> None:
    scores = score_text(query, submission)
    for value in (scores.coverage, scores.relevance, scores.clarity, scores.overall):
        assert 0 <= value <= 100


@pytest.mark.parametrize(
    ("scores", "goes_on"),
    [((), True), ((80,), True), ((80, 85), True), ((80, 80.5), False), ((85, 80), False), ((80, 95), False)],
)
def test_prospects_follow_the_scores(scores: tuple[float, ...], goes_on: bool) -> None:
    prompt = "\n".join(f"**スコア:** {score:.2f}/100" for score in scores)
    assert judge_prospects(prompt).should_continue is goes_on


@pytest.mark.parametrize("language", ["ja", "en"])
def test_every_response_states_that_no_model_judged(language: str) -> None:
    judge = RuleJudge(language)  # type: ignore[arg-type]
    note = NOTE[language]
    about = QuestionSubject(QUERY, ("社内の勉強会", "x"), "Coverage")
    assert judge.judge(JudgeQuestion("", "", about), JudgedScore).evaluator_comment == note
    assert judge.judge(JudgeQuestion("", "", about), JudgedPreference).reasoning == note
    judgment = judge.judge(JudgeQuestion("", "80.00/100"), ImprovementJudgment)
    assert judgment.reasoning == f"{note} 80.00"


def test_other_shapes_are_no_question_of_a_judge() -> None:
    class OtherModel(BaseModel):
        x: int

    with pytest.raises(TypeError, match="Other"):
        RuleJudge().judge(JudgeQuestion("", ""), OtherModel)
