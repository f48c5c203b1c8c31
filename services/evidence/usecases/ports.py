"""The ports of the use cases, and the values that pass through them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from libs.storage.idempotency import IdempotencyKey
from services.evidence.domain.policy import TrialPolicy
from services.evidence.domain.trials import BulletDecision, BulletTrial, DatasetTrials, EffectPoint, Exposure


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """A query of a session. With `allow_missing` a dataset that does not exist has no bullets."""

    dataset: str
    session_id: str
    query_text: str
    top_k: int | None = None
    min_revision: int = 0
    allow_missing: bool = False


class RankedBullet(NamedTuple):
    """A bullet as search ranked it; `result` is search's message, passed through."""

    bullet_id: str
    text_version: str
    result: Any


@dataclass(frozen=True, slots=True)
class RankedBullets:
    """The answer of search."""

    bullets: list[RankedBullet]
    revision: int


class BulletRanking(Protocol):
    """Ranks the bullets of a dataset."""

    async def rank(self, query: RecallQuery) -> RankedBullets:
        """Return the best bullets. Raises `HanseiError`."""


@dataclass(frozen=True, slots=True)
class OutcomeReport:
    """An outcome of a serving."""

    serving_id: str
    outcome: float
    is_correction: bool


@dataclass(frozen=True, slots=True)
class ReportResult:
    """The outcome that counts after a report, and the decisions that it led to."""

    counted: bool
    outcome: float
    decisions: list[tuple[int, BulletDecision]]


class EvidenceStore(Protocol):
    """Stores trials, servings and outcomes."""

    async def start(self, key: IdempotencyKey, dataset: str, policy: TrialPolicy) -> bool:
        """Start or change trials; return whether measurements restarted."""

    async def stop(self, key: IdempotencyKey, dataset: str) -> None:
        """Stop trials. Raises `TrialsNotFound`."""

    async def find_trials(self, dataset: str) -> DatasetTrials | None:
        """Return the trials of a dataset; None if it never had any."""

    async def serve(
        self, dataset: str, session_id: str, bullets: list[RankedBullet]
    ) -> tuple[str, list[Exposure] | None]:
        """Store the serving of a session; return its serving id and the exposure of each of the bullets.

        None instead of exposures: the session gets no playbook. An empty id: no trials are running.
        """

    async def report(self, dataset: str, report: OutcomeReport) -> ReportResult:
        """Store an outcome and count it. Raises `ServingNotFound`."""

    async def list_bullet_trials(self, dataset: str) -> list[BulletTrial]:
        """Return the bullets that are, or were, on trial."""

    async def list_decisions(self, dataset: str, before: int | None, limit: int) -> list[tuple[int, BulletDecision]]:
        """Return at most `limit` decisions with their numbers, the newest first, those before a number."""

    async def list_later_decisions(self, dataset: str, after: int, limit: int) -> list[tuple[int, BulletDecision]]:
        """Return at most `limit` decisions after a number with their numbers, the oldest first."""

    async def list_points(self, dataset: str, bullet_id: str) -> list[EffectPoint]:
        """Return the history of the newest trial of a bullet, or with an empty id of the whole playbook."""

    async def find_decision(self, dataset: str, number: int) -> BulletDecision:
        """Return a decision. Raises `DecisionNotFound`."""

    async def undo_decision(self, dataset: str, number: int) -> tuple[int, BulletDecision]:
        """Put the bullet of a decision back on trial; return the new decision, with its number.

        A repeated call changes nothing and returns the decision of the first call. Raises `DecisionNotFound`,
        `DecisionNotCurrent`.
        """

    async def list_unpublished_removals(self, limit: int, skipped: int = 0) -> list[tuple[str, int, BulletDecision]]:
        """Return dataset, number and decision of harmful bullets that the playbook still has, the oldest first.

        The first `skipped` ones are left out.
        """

    async def set_published(self, dataset: str, number: int, revision: int) -> None:
        """Store in which revision a bullet was removed; 0 for a bullet that was not there any more."""


class AddedBullet(NamedTuple):
    """A bullet in a revision of its playbook."""

    bullet_id: str
    revision: int


class PlaybookEditor(Protocol):
    """Changes playbooks. Every change has a request id, so that a repeated one happens once."""

    async def remove(self, request_id: str, dataset: str, bullet_id: str, text_version: str, reason: str) -> int:
        """Remove a bullet that still has this text; return the revision, 0 if there is none. Raises `HanseiError`.

        There is none while the removal waits for a review.
        """

    async def withdraw_removal(
        self, request_id: str, dataset: str, bullet_id: str, removal_reason: str, author: str, reason: str
    ) -> int:
        """Reject a removal that waits for a review; return the revision of one that was approved, else 0.

        Raises `HanseiError`.
        """

    async def add_again(self, request_id: str, dataset: str, bullet_id: str, author: str, reason: str) -> AddedBullet:
        """Add the last text of a bullet that was removed. Raises `HanseiError`."""
