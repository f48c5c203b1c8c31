"""Prompts of teams, evaluators and judges, and the limits of their templates."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2.exceptions import SecurityError, TemplateSyntaxError, UndefinedError
from pydantic import ValidationError

from libs.prompts.builder import UserPromptBuilder
from libs.prompts.contexts import EvaluatorPromptContext, ImprovementJudgment, RoundPromptContext, RoundState
from libs.prompts.settings import PromptBuilderSettings

QUERY = "社内の{勉強会}を続けるには? {{ user_prompt }}"
NOW = "2025-11-25T10:00:00.123456+09:00"
RANKING = [
    {"team_id": "t1", "team_name": "チームさくら", "max_score": 88.0, "total_rounds": 2},
    {"team_id": "team-010", "team_name": "B", "max_score": 80.0, "total_rounds": 2},
]


class Store:
    def __init__(self, ranking: list[dict[str, Any]] | None = None) -> None:
        self.ranking = RANKING if ranking is None else ranking
        self.execution_ids: list[str] = []

    def get_leader_board_ranking(self, execution_id: str) -> list[dict[str, Any]]:
        self.execution_ids.append(execution_id)
        return self.ranking


class AsyncStore(Store):
    async def get_leader_board_ranking(self, execution_id: str) -> list[dict[str, Any]]:  # type: ignore[override]
        return super().get_leader_board_ranking(execution_id)


def builder(**templates: str) -> UserPromptBuilder:
    return UserPromptBuilder(PromptBuilderSettings(**templates), lambda: NOW)  # type: ignore[arg-type]


def state(number: int, content: str, score: float, details: dict[str, Any]) -> RoundState:
    return RoundState(
        round_number=number,
        submission_content=content,
        evaluation_score=score,
        score_details=details,
        round_started_at=datetime(2025, 11, 25, tzinfo=UTC),
        round_ended_at=datetime(2025, 11, 25, tzinfo=UTC),
    )


HISTORY = [
    state(1, "最初の案", 85.5, {"metric1": 90.0, "metric2": 81.0}),
    state(
        2,
        "次の案 {{ 7 * 7 }}",
        88.0,
        {
            "overall_score": 88.0,
            "metrics": [{"metric_name": "Coverage", "score": 88.0, "evaluator_comment": "広い"}],
        },
    ),
]


def context(
    number: int, history: list[RoundState] | None = None, store: Any = None, **fields: Any
) -> RoundPromptContext:
    given_fields = {
        "user_prompt": QUERY,
        "round_number": number,
        "round_history": history or [],
        "team_id": "t1",
        "team_name": "チームさくら",
        "execution_id": "e1",
        "store": store,
    }
    return RoundPromptContext(**{**given_fields, **fields})


def test_the_evaluator_prompt_has_its_values_as_they_are() -> None:  # B-08, B-16, B-31, B-49
    submission = "S {{ x }} {y} {% raw %}"
    prompt = builder().build_evaluator_prompt(EvaluatorPromptContext(user_query=QUERY, submission=submission))
    assert prompt.startswith(f"---\n現在日時: {NOW}\n---\n\n")
    assert f"# ユーザクエリ\n{QUERY}\n\n# 提出内容\n{submission}" in prompt


@pytest.mark.parametrize("store", [Store, AsyncStore])
async def test_round_prompts_show_history_ranking_and_position(store: type[Store]) -> None:  # B-09, B-17, B-18, B-32
    third = context(3, HISTORY, store())
    shown = ["次の案 {{ 7 * 7 }}", "**スコア:** 88.00/100", "1    | t1       | チームさくら | 88.00 ← あなたのチーム"]
    judgment, team = await builder().build_judgment_prompt(third), await builder().build_team_prompt(third)
    assert all(part in prompt for part in shown for prompt in (judgment, team))
    assert "現在、2チーム中1位です。" in team  # B-33
    first = await builder().build_team_prompt(context(1))
    assert "まだ過去のSubmissionはありません。" in first
    assert "前回より改善" not in first


async def test_english_prompts_are_complete() -> None:
    prompt = await builder(language="en").build_team_prompt(context(3, HISTORY, Store()))
    assert "You are 1st of 2 teams" in prompt
    assert "do better than last time" in prompt
    assert "← your team" in prompt


async def test_the_ranking_is_not_read_in_round_one_or_without_a_store() -> None:  # B-17, B-50, B-53
    store = Store()
    await builder().build_team_prompt(context(1, [], store))
    assert store.execution_ids == []
    assert "まだランキング情報がありません。" in await builder().build_judgment_prompt(context(2, HISTORY))
    await builder().build_judgment_prompt(context(2, HISTORY, store))
    assert store.execution_ids == ["e1"]


async def test_a_team_that_is_not_ranked_has_no_position() -> None:  # B-18, B-50
    for store in (Store([]), Store([{"team_id": "x", "team_name": "X", "max_score": 1.0, "total_rounds": 1}])):
        prompt = await builder().build_team_prompt(context(2, HISTORY, store))
        assert prompt.endswith("まだあなたのチームの順位はありません。")


async def test_a_store_error_is_raised_unchanged() -> None:  # B-19
    class BrokenStore:
        def get_leader_board_ranking(self, execution_id: str) -> None:
            raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        await builder().build_team_prompt(context(2, HISTORY, BrokenStore()))


ANY = EvaluatorPromptContext(user_query="A", submission="B")


def evaluator_prompt(template: str, context: EvaluatorPromptContext = ANY) -> str:
    return builder(evaluator_user_prompt=template).build_evaluator_prompt(context)


@pytest.mark.parametrize(
    ("template", "detail", "cause"),
    [
        ("{{ nope }}", "'nope' is undefined", UndefinedError),
        ("{{ user_query|nofilter }}", "No filter named 'nofilter'.", TemplateSyntaxError),
        ("{{ user_query is notest }}", "No test named 'notest'.", TemplateSyntaxError),
        ("{% if true %}{{ user_query|nofilter }}{% endif %}", "No filter named 'nofilter' found.", Exception),
        ("{{ range }}", "'range' is undefined", UndefinedError),  # B-10
        ("{{ ranking_table }}", "'ranking_table' is undefined", UndefinedError),  # B-10
    ],
)
def test_template_errors_are_named(template: str, detail: str, cause: type[Exception]) -> None:  # B-12, B-48
    with pytest.raises(RuntimeError) as raised:
        evaluator_prompt(template)
    assert str(raised.value) == f"Jinja2 template error: {detail}"
    assert isinstance(raised.value.__cause__, cause)


def test_a_syntax_error_is_named() -> None:  # B-12
    with pytest.raises(RuntimeError, match="Jinja2 template error: "):
        evaluator_prompt("{% for %}")


def test_other_exceptions_pass_unchanged() -> None:  # B-13
    with pytest.raises(ZeroDivisionError):
        evaluator_prompt("{{ 1/0 }}")
    with pytest.raises(TypeError):
        evaluator_prompt('{% include "x" %}')


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ user_query.__init__.__globals__ }}",
        "{{ 'a' * 10000000 }}",
        "{{ 9 ** 99999999 }}",
        "{{ ('a' * 1000000) * 1000 }}",
    ],
)
def test_the_sandbox_refuses_dangerous_templates(template: str) -> None:
    with pytest.raises((SecurityError, RuntimeError)):
        evaluator_prompt(template)


def test_templates_may_test_for_undefined_names_and_default_them() -> None:  # B-14
    assert evaluator_prompt('{{ x is defined }} {{ x|default("d") }}') == "False d"


def test_one_trailing_newline_is_dropped() -> None:  # B-15
    assert evaluator_prompt("{{ user_query }}\n\n") == "A\n"
    assert evaluator_prompt("{% if false %}x{% endif %}\n") == ""


def test_the_time_is_read_once_per_build() -> None:  # B-11
    times = iter(["t1", "t2"])
    build = UserPromptBuilder(
        PromptBuilderSettings(evaluator_user_prompt="{{ current_datetime }}{{ current_datetime }}"), lambda: next(times)
    ).build_evaluator_prompt
    assert [build(ANY), build(ANY)] == ["t1t1", "t2t2"]


def test_values_are_not_stripped() -> None:  # B-06
    assert evaluator_prompt("{{ user_query }}|", EvaluatorPromptContext(user_query="  a ", submission="b")) == "  a |"


TEMPLATE_TEXT = st.text(alphabet="{}%#ab あ\n-'\"|", max_size=40).filter(str.strip)


@settings(max_examples=150, deadline=None)
@given(query=TEMPLATE_TEXT, submission=TEMPLATE_TEXT)
def test_text_with_template_syntax_appears_as_it_is(query: str, submission: str) -> None:  # B-16, B-49, G-67
    japanese = builder(language="ja")
    prompt = japanese.build_evaluator_prompt(EvaluatorPromptContext(user_query=query, submission=submission))
    before, after = japanese.build_evaluator_prompt(EvaluatorPromptContext(user_query="\x00", submission="\x01")).split(
        "\x00"
    )
    assert prompt == before + query + after.replace("\x01", submission)


@pytest.mark.parametrize("field", ["user_prompt", "team_id", "team_name", "execution_id"])
def test_blank_fields_are_refused(field: str) -> None:  # B-04
    with pytest.raises(ValidationError, match=f"{field} cannot be empty"):
        context(1, [], None, **{field: " \u3000"})


@pytest.mark.parametrize("field", ["user_query", "submission"])
def test_blank_evaluator_fields_are_refused(field: str) -> None:  # B-06
    with pytest.raises(ValidationError, match=f"{field} cannot be empty"):
        EvaluatorPromptContext(**{"user_query": "a", "submission": "b", field: " "})


def test_rounds_count_from_one() -> None:  # B-03, B-05
    with pytest.raises(ValidationError, match="round_number must be >= 1"):
        context(0)
    assert context(4).round_history == []


def test_the_context_of_a_round_has_these_fields() -> None:  # B-02
    fields = ["user_prompt", "round_number", "round_history", "team_id", "team_name", "execution_id", "store"]
    assert list(RoundPromptContext.model_fields) == fields
    without_store = RoundPromptContext(
        user_prompt="q", round_number=1, round_history=[], team_id="t", team_name="T", execution_id="e"
    )
    assert without_store.store is None


def test_markup_is_not_escaped_and_nothing_undefined_is_empty() -> None:  # B-07
    text = "<b> & \"'"
    assert evaluator_prompt("{{ user_query }}", EvaluatorPromptContext(user_query=text, submission="s")) == text
    with pytest.raises(RuntimeError, match="'nope' is undefined"):
        evaluator_prompt("{{ nope }}")


def test_a_round_state_is_validated_and_has_defaults() -> None:  # B-01
    with pytest.raises(ValidationError):
        state(0, "x", 1.0, {})
    first = HISTORY[0]
    assert (first.improvement_judgment, first.message_history) == (None, [])


def test_a_judgment_is_bounded() -> None:  # V-63
    for score in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValidationError):
            ImprovementJudgment(should_continue=True, reasoning="", confidence_score=score)
