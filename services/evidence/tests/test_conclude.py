"""The conclusion about a whole playbook, as a verdict and as a sentence."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import pytest

from hansei.evidence.v1 import evidence_pb2
from services.evidence.domain.effects import EffectStatistics
from services.evidence.domain.policy import TrialPolicy
from services.evidence.domain.trials import ArmCounts, BulletState, DatasetTrials
from services.evidence.usecases.conclude import Conclusion, Verdict, conclude

SPLIT = ArmCounts(300, 100)
TRIALS = DatasetTrials(
    "git", b"key", TrialPolicy(), True, 1, datetime(2026, 11, 1, tzinfo=UTC), servings=SPLIT, reports=SPLIT
)

EVERYONE = ArmCounts(9, 0)
UNCOMPARED = replace(TRIALS, policy=TrialPolicy(playbook_holdout=0.0), servings=EVERYONE, reports=EVERYONE)


def conclude_from(served: float, withheld: float, evidence: float, sessions: int = 400) -> Conclusion:
    """Return the conclusion from two success rates, a quarter of the sessions without the playbook."""
    with_it, without_it = 0.75 * sessions, 0.25 * sessions
    lift = EffectStatistics(with_it, served * with_it, without_it, withheld * without_it, evidence)
    return conclude(replace(TRIALS, lift=lift))


@pytest.mark.parametrize(
    ("served", "withheld", "evidence", "verdict", "sentence"),
    [
        (0.9, 0.5, 40.0, Verdict.HELPS, "The playbook helps: it raises the success rate by"),
        (0.5, 0.9, 40.0, Verdict.HARMS, "The playbook harms: it lowers the success rate by"),
        (0.62, 0.5, 3.1, Verdict.HELPS, "The playbook helps; how much is not known yet (between -"),
        (0.5, 0.62, 3.1, Verdict.HARMS, "The playbook harms; how much is not known yet (between -"),
        (0.52, 0.5, 0.0, Verdict.UNDECIDED, "No conclusion yet: the difference is between -"),
    ],
)
def test_success_with_and_without_the_playbook_decides(
    served: float, withheld: float, evidence: float, verdict: Verdict, sentence: str
) -> None:
    found = conclude_from(served, withheld, evidence)
    assert found.verdict is verdict
    assert found.sentence.startswith(sentence)
    assert found.more_sessions == 0


def test_an_undecided_difference_says_how_many_sessions_a_conclusion_needs() -> None:
    """Half of the evidence after 400 sessions takes 400 more."""
    found = conclude_from(0.6, 0.5, 1.4979)
    assert (found.verdict, found.more_sessions) == (Verdict.UNDECIDED, 400)
    assert found.sentence.endswith("a conclusion needs about 400 more sessions.")


@pytest.mark.parametrize(
    ("trials", "verdict", "sentence"),
    [
        (None, Verdict.NOT_MEASURED, "Nothing is measured"),
        (replace(TRIALS, reports=ArmCounts(300, 10)), Verdict.CHECK_FAILED, "Nothing can be concluded: the reports"),
        (UNCOMPARED, Verdict.NOT_COMPARED, "The playbook is not compared"),
        (TRIALS, Verdict.NO_OUTCOMES, "No conclusion yet: both arms need sessions"),
    ],
)
def test_without_a_fair_comparison_there_is_no_conclusion(
    trials: DatasetTrials | None, verdict: Verdict, sentence: str
) -> None:
    found = conclude(trials)
    assert (found.verdict, found.more_sessions) == (verdict, 0)
    assert found.sentence.startswith(sentence)


@pytest.mark.parametrize(
    ("values", "enum", "prefix"),
    [(Verdict, evidence_pb2.Verdict, "VERDICT_"), (BulletState, evidence_pb2.BulletState, "BULLET_STATE_")],
)
def test_every_value_has_one_of_its_name_in_the_contract(values: type[Enum], enum: Any, prefix: str) -> None:
    assert [f"{prefix}{name}" for name in ("UNSPECIFIED", *values.__members__)] == enum.keys()
