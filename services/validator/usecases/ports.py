"""The ports of the use cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeVar

from pydantic import BaseModel

from libs.storage.idempotency import IdempotencyKey
from services.validator.domain.evaluation import ModelId
from services.validator.domain.kind_definition import KindDefinition
from services.validator.domain.kinds import ReportKind
from services.validator.domain.leaderboard import (
    JudgementRecord,
    LeaderBoardEntry,
    LeaderboardSummary,
    RoundKey,
    Submission,
    TeamScores,
)
from services.validator.domain.runs import ReportRun
from services.validator.domain.wording import PhraseFinders, Wording


class LeaderboardStore(Protocol):
    """Stores entries and judgements."""

    async def upsert(self, request: IdempotencyKey, submission: Submission) -> LeaderBoardEntry:
        """Write the entry of a round."""

    async def record_judgement(self, request: IdempotencyKey, key: RoundKey, record: JudgementRecord) -> None:
        """Write the judgement of a round."""

    async def list_team_scores(self, execution_id: str) -> list[TeamScores]:
        """Return all scores of an execution by team."""

    async def find_best_entry(self, execution_id: str, team_id: str) -> LeaderBoardEntry | None:
        """Return the entry of a team with the highest score; of equal ones the later round."""

    async def list_summaries(self, prefix: str, before: int | None, limit: int) -> list[LeaderboardSummary]:
        """Return executions whose ids have a prefix, the newest first, those before the one with this newest entry."""

    async def list_entries(
        self, execution_id: str, after: tuple[str, int] | None, limit: int
    ) -> list[LeaderBoardEntry]:
        """Return entries by team and round, those after a (team, round) pair."""


class Vocabulary(Protocol):
    """Finds words, by wording mode."""

    async def list_words(self, wording: Wording) -> PhraseFinders:
        """Return the words of a wording mode; load its dictionary on first use."""


@dataclass(frozen=True, slots=True)
class RegisteredKind:
    """A definition and the time of its registration, UTC."""

    definition: KindDefinition
    created_at: datetime


class KindStore(Protocol):
    """Stores definitions of report kinds."""

    async def add(self, request: IdempotencyKey, definition: KindDefinition) -> RegisteredKind:
        """Store a definition. Raise KindExists."""

    async def remove(self, request: IdempotencyKey, name: str) -> None:
        """Remove a definition. Raise KindNotFound."""

    async def get(self, name: str) -> RegisteredKind:
        """Return the definition of this name. Raise KindNotFound."""

    async def page(self, after: str, limit: int) -> Sequence[RegisteredKind]:
        """Return definitions by name, those after a name."""


S = TypeVar("S", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class JudgeCall:
    """The model, its temperature, the time limit of one call in seconds, and the number of further calls."""

    model: ModelId
    temperature: float
    timeout_seconds: float
    max_retries: int


@dataclass(frozen=True, slots=True)
class QuestionSubject:
    """The subject of a prompt, for judges that work by rules instead of reading prompts."""

    user_query: str = ""
    submissions: tuple[str, ...] = ()
    metric: str = ""


@dataclass(frozen=True, slots=True)
class JudgeQuestion:
    """A prompt for a judge: its role, the prompt, and the subject."""

    instruction: str
    prompt: str
    subject: QuestionSubject = field(default_factory=QuestionSubject)


class JudgeModel(Protocol):
    """Models that answer in a given shape."""

    async def judge(self, call: JudgeCall, question: JudgeQuestion, shape: type[S]) -> S:
        """Make one call. A reply that does not fit the shape is a failure.

        Raises FailedPrecondition or InvalidArgument when the model cannot be asked at all.
        """


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """The answer of a model; token counts are None when the provider reported none."""

    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None


class ReportModel(Protocol):
    """A model that writes reports."""

    async def answer(self, prompt: str) -> ModelAnswer:
        """Return the answer to one prompt.

        Raises FailedPrecondition when it cannot be asked at all (a missing key), which ends the run at once, and any
        other exception when this call failed, which costs one attempt.
        """


class RunObserver(Protocol):
    """Records finished runs, for metrics."""

    def run_ended(self, kind: ReportKind, run: ReportRun) -> None:
        """Record a run that has ended."""
