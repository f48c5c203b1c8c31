"""Decisions after rounds, and the best round of a team."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from chassis.errors import InvalidArgument
from chassis.server import validation
from hansei.validator.v1 import evaluator_service_pb2 as pb
from libs.prompts.contexts import ImprovementJudgment
from services.validator.domain.rounds import RoundDecision, RoundRules
from services.validator.usecases.decide_round import DecideRound

CONTINUE = ImprovementJudgment(should_continue=True, reasoning="why", confidence_score=0.75)
STOP = CONTINUE.model_copy(update={"should_continue": False})
RULES = RoundRules(min_rounds=2, max_rounds=5, judge_on_final_round=True)


@dataclass
class Judge:
    judgment: ImprovementJudgment
    prompts: list[tuple[str, str | None]] = field(default_factory=list)

    async def judge_improvement_prospects(self, formatted_prompt: str, model: str | None = None) -> ImprovementJudgment:
        self.prompts.append((formatted_prompt, model))
        return self.judgment


async def test_below_the_minimum_of_rounds_a_team_continues_without_a_judge() -> None:  # G-55
    judge = Judge(STOP)
    below = ImprovementJudgment(should_continue=True, reasoning="Below minimum rounds (1 < 2)", confidence_score=1.0)
    assert await DecideRound(judge)(RULES, 1, "prompt") == RoundDecision("", below)
    assert judge.prompts == []


async def test_after_the_last_round_no_judge_is_asked_unless_wanted() -> None:  # G-56
    judge = Judge(CONTINUE)
    rules = RoundRules(min_rounds=2, max_rounds=5, judge_on_final_round=False)
    assert await DecideRound(judge)(rules, 5, "prompt") == RoundDecision("max_rounds_reached", None)
    assert judge.prompts == []


@pytest.mark.parametrize(
    ("number", "judgment", "expected"),
    [
        (2, CONTINUE, RoundDecision("", CONTINUE)),
        (2, STOP, RoundDecision("no_improvement_expected", STOP)),
        (5, CONTINUE, RoundDecision("max_rounds_reached", STOP)),
        (5, STOP, RoundDecision("max_rounds_reached", STOP)),
    ],
)
async def test_the_judge_decides_and_nothing_follows_the_last_round(  # G-57, G-60
    number: int, judgment: ImprovementJudgment, expected: RoundDecision
) -> None:
    judge = Judge(judgment)
    assert await DecideRound(judge)(RULES, number, None) is None, "a judgement is required"
    assert judge.prompts == []
    assert await DecideRound(judge)(RULES, number, "prompt", "openai:j") == expected
    assert judge.prompts == [("prompt", "openai:j")]


def test_the_least_rounds_are_not_more_than_the_most() -> None:  # G-70
    request = pb.DecideRoundRequest(round_number=1, min_rounds=3, max_rounds=2)
    with pytest.raises(InvalidArgument, match="min_rounds must be <= max_rounds"):
        validation.check(request)
