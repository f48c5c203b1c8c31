"""Records of rounds and the ranking of teams (spec section 9)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from services.validator.domain.evaluation import EvaluationResult


@dataclass(frozen=True, slots=True)
class RoundKey:
    """One round of one team of one execution (V-68)."""

    execution_id: str
    team_id: str
    round_number: int


@dataclass(frozen=True, slots=True)
class JudgementRecord:
    """The judgement of a round, as far as there is one (V-71)."""

    should_continue: bool | None = None
    reasoning: str | None = None
    confidence_score: float | None = None


@dataclass(frozen=True, slots=True)
class Submission:
    """The part of an entry that the caller writes; the store sets the rest."""

    key: RoundKey
    team_name: str
    submission_content: str
    score: float
    score_details: EvaluationResult | None = None
    submission_format: str = "md"
    final_submission: bool = False
    exit_reason: str | None = None


@dataclass(frozen=True, slots=True)
class LeaderBoardEntry:
    """A stored submission (V-67); times are aware UTC."""

    id: int
    submission: Submission
    created_at: datetime
    updated_at: datetime
    judgement: JudgementRecord | None = None


@dataclass(frozen=True, slots=True)
class LeaderboardSummary:
    """The entries of one execution in short; `last_id` is the id of the newest one."""

    execution_id: str
    teams: int
    entries: int
    last_round: int
    best_team_id: str
    best_team_name: str
    max_score: float
    created_at: datetime
    updated_at: datetime
    last_id: int


@dataclass(frozen=True, slots=True)
class TeamScores:
    """The scores of a team in one execution, at least one, in order of rounds."""

    team_id: str
    team_name: str
    scores: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Return the mean score."""
        return math.fsum(self.scores) / len(self.scores)


@dataclass(frozen=True, slots=True)
class RankingRow:
    """One team of a ranking; the last two are set when teams are ordered by shrunken score."""

    team_id: str
    team_name: str
    max_score: float
    total_rounds: int
    shrunken_score: float | None = None
    standard_error: float | None = None


def rank_by_max_score(teams: Sequence[TeamScores]) -> list[RankingRow]:
    """Rank by the highest score of any round, then by team id (V-70)."""
    rows = [RankingRow(team.team_id, team.team_name, max(team.scores), len(team.scores)) for team in teams]
    return sorted(rows, key=lambda row: (-row.max_score, row.team_id))


def rank_by_shrunken_score(teams: Sequence[TeamScores]) -> list[RankingRow]:
    """Rank by the shrunken mean, then by team id: more rounds alone change no rank.

    A team's mean of n scores is drawn to the mean of all teams by n / (n + k). With k the geometric mean of all n, the
    spread sqrt(n) / (n + k) of this estimate is the same for n and k^2 / n rounds, so among equal teams few and many
    rounds lead equally often. (The maximum favours many rounds, the plain mean few.) k is the ratio of noise variance
    to team variance in the normal model of James and Stein (1961), Efron and Morris (1975); the standard error is that
    model's posterior deviation, sigma / sqrt(n + k), with sigma pooled over the rounds of each team, and is left out
    where no team has two rounds.
    """
    if not teams:
        return []
    counts = [len(team.scores) for team in teams]
    strength = math.exp(math.fsum(math.log(count) for count in counts) / len(counts))
    weights = [count / (count + strength) for count in counts]
    center = math.fsum(w * team.mean for w, team in zip(weights, teams, strict=True)) / math.fsum(weights)
    deviation = _pool_deviation(teams)
    rows = [
        RankingRow(
            team.team_id,
            team.team_name,
            max(team.scores),
            count,
            center + weight * (team.mean - center),
            None if deviation is None else deviation / math.sqrt(count + strength),
        )
        for team, count, weight in zip(teams, counts, weights, strict=True)
    ]
    return sorted(rows, key=lambda row: (-(row.shrunken_score or 0.0), row.team_id))


def _pool_deviation(teams: Sequence[TeamScores]) -> float | None:
    """Return the standard deviation of the scores around the mean of their team."""
    freedom = sum(len(team.scores) - 1 for team in teams)
    if freedom == 0:
        return None
    squares = math.fsum((score - team.mean) ** 2 for team in teams for score in team.scores)
    return math.sqrt(squares / freedom)
