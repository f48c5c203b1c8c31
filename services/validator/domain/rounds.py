"""The rules of rounds: when a team continues, when the judge is asked, why a team ends (G-55 to G-57, G-60)."""

from __future__ import annotations

from dataclasses import dataclass

from libs.prompts.contexts import ImprovementJudgment

MAX_ROUNDS_REACHED = "max_rounds_reached"
NO_IMPROVEMENT_EXPECTED = "no_improvement_expected"


@dataclass(frozen=True, slots=True)
class RoundDecision:
    """The decision after a round. `exit_reason` is empty if the team continues, `judgment` None without a judge."""

    exit_reason: str
    judgment: ImprovementJudgment | None


@dataclass(frozen=True, slots=True)
class RoundRules:
    """The least and the most rounds of a team; `judge_on_final_round`: the last allowed round is judged, too."""

    min_rounds: int
    max_rounds: int
    judge_on_final_round: bool

    def decide_without_judge(self, round_number: int) -> RoundDecision | None:
        """Return the decision after a round for which no judge is asked, else None."""
        if round_number < self.min_rounds:
            reasoning = f"Below minimum rounds ({round_number} < {self.min_rounds})"
            return RoundDecision(
                "", ImprovementJudgment(should_continue=True, reasoning=reasoning, confidence_score=1.0)
            )
        if round_number >= self.max_rounds and not self.judge_on_final_round:
            return RoundDecision(MAX_ROUNDS_REACHED, None)
        return None

    def decide_by_judgment(self, judgment: ImprovementJudgment, round_number: int) -> RoundDecision:
        """Return the decision after a judged round; the last allowed round ends it regardless of the judge."""
        if round_number >= self.max_rounds:
            return RoundDecision(MAX_ROUNDS_REACHED, judgment.model_copy(update={"should_continue": False}))
        return RoundDecision("" if judgment.should_continue else NO_IMPROVEMENT_EXPECTED, judgment)
