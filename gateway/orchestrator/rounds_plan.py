"""What an execution of rounds was asked for, with the defaults of the contract (G-46 to G-49)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from chassis.errors import InvalidArgument, Violation
from gateway.orchestrator.workflow import DEFAULT_DATASET
from hansei.gateway.v1 import rounds_service_pb2 as rounds
from hansei.validator.v1 import evaluation_pb2 as evaluation

MAX_ROUNDS = 5
MIN_ROUNDS = 2
SUBMISSION_SECONDS = 300.0
JUDGMENT_SECONDS = 60.0
TEAM_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class Team:
    """Who takes part."""

    team_id: str
    team_name: str
    dataset: str
    instruction: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What the rounds of all teams have in common; timeouts in seconds."""

    execution_id: str
    user_prompt: str
    teams: tuple[Team, ...]
    max_rounds: int
    min_rounds: int
    judge_on_final_round: bool
    submission_timeout: float
    judgment_timeout: float
    team_timeout: float
    evaluation: evaluation.EvaluationConfig | None
    judge_model: str | None


def plan_of(request: rounds.RunRoundsRequest, new_id: Callable[[], str]) -> Plan:
    """The plan. Raises InvalidArgument naming every rule that the request breaks."""
    max_rounds = request.max_rounds if request.HasField("max_rounds") else MAX_ROUNDS
    min_rounds = request.min_rounds if request.HasField("min_rounds") else min(MIN_ROUNDS, max_rounds)  # G-48
    found = [*_violations(request), *_violations_of_bounds(min_rounds, max_rounds)]
    if found:
        raise InvalidArgument(found[0].description, violations=found)
    return Plan(
        execution_id=request.execution_id if request.HasField("execution_id") else new_id(),
        user_prompt=request.user_prompt,
        teams=tuple(_team(team) for team in request.teams),
        max_rounds=max_rounds,
        min_rounds=min_rounds,
        judge_on_final_round=not request.HasField("judge_on_final_round") or request.judge_on_final_round,
        submission_timeout=_seconds(request, "submission_timeout", SUBMISSION_SECONDS),
        judgment_timeout=_seconds(request, "judgment_timeout", JUDGMENT_SECONDS),
        team_timeout=_seconds(request, "team_timeout", TEAM_SECONDS),
        evaluation=request.evaluation if request.HasField("evaluation") else None,
        judge_model=request.judge_model if request.HasField("judge_model") else None,
    )


def _team(team: rounds.Team) -> Team:
    dataset = team.dataset if team.HasField("dataset") else DEFAULT_DATASET
    return Team(team.team_id, team.team_name, dataset, team.instruction)


def _seconds(request: rounds.RunRoundsRequest, field: str, default: float) -> float:
    if not request.HasField(field):  # type: ignore[arg-type]
        return default
    return float(getattr(request, field).ToTimedelta().total_seconds())


def _violations(request: rounds.RunRoundsRequest) -> Iterator[Violation]:
    """What the prompts could not be built from later (B-04), and teams that cannot be told apart."""
    named = [("user_prompt", request.user_prompt)]
    if request.HasField("execution_id"):
        named.append(("execution_id", request.execution_id))
    for index, team in enumerate(request.teams):
        named += [(f"teams[{index}].team_id", team.team_id), (f"teams[{index}].team_name", team.team_name)]
    for path, value in named:
        if not value.strip():
            yield Violation(path, f"{path.rpartition('.')[2]} cannot be empty")
    counted = Counter(team.team_id for team in request.teams)
    duplicates = [team_id for team_id, count in counted.items() if count > 1]
    if duplicates:
        yield Violation("teams", f"Duplicate team ids found: {', '.join(duplicates)}")


def _violations_of_bounds(min_rounds: int, max_rounds: int) -> Iterator[Violation]:
    if min_rounds > max_rounds:
        yield Violation("min_rounds", f"min_rounds ({min_rounds}) must be <= max_rounds ({max_rounds})")
