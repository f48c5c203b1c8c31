"""What the use cases need from the world outside, as they name it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from libs.storage.idempotency import IdempotencyKey
from services.curator.domain.curation import Operation, VoteOutcome
from services.curator.domain.draft import Ballot, Draft, View
from services.curator.domain.log import Change, Origin, Revision, Stored
from services.curator.domain.review import PendingChange, PendingState
from services.curator.domain.rules import Policy
from services.curator.domain.snapshot import Snapshot
from services.curator.usecases.embed_new_texts import NewEmbeddings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset without its bullets; `updated_at` is None at revision 0."""

    name: str
    revision: int = 0
    bullets: int = 0
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DatasetHead:
    """The newest state of a dataset: how much it holds and its rules, defaults filled in."""

    dataset: Dataset
    policy: Policy
    retired_bullets: int = 0
    pending_changes: int = 0


class DatasetTransaction(View, Protocol):
    """A dataset inside a writing transaction: nobody else writes to it meanwhile."""

    dataset: str

    @property
    def policy(self) -> Policy:
        """The rules of the dataset."""
        ...

    def tokens(self) -> int:
        """The estimated tokens of all bullets."""
        ...

    def changes_after(self, revision: int) -> list[Change]:
        """The changes of all revisions after `revision`, in log order."""
        ...

    def revisions_of(self, trajectory: str) -> list[int]:
        """The revisions that came from one trajectory, oldest first; its revocations aside."""
        ...

    def revoked(self) -> set[str]:
        """The trajectories that were revoked."""
        ...

    def has_voted(self, trajectory: str) -> bool:
        """Whether the trajectory ever voted here, also with votes that were withdrawn."""
        ...

    def changes_of(self, slots: Sequence[int]) -> list[Change]:
        """All changes of these slots, in log order."""
        ...

    def changes_in(self, revisions: Sequence[int]) -> dict[int, list[Change]]:
        """The changes of these revisions."""
        ...

    def ballots_of(self, trajectory: str) -> list[Ballot]:
        """The standing votes that one trajectory cast."""
        ...

    def ballots_since(self, revision: int) -> list[Ballot]:
        """The standing votes cast after `revision`."""
        ...

    def ballots_withdrawn_since(self, revision: int) -> list[Ballot]:
        """The votes that stood at `revision` and were withdrawn after it."""
        ...

    def ballots_on(self, slot: int) -> list[Ballot]:
        """The standing votes on one bullet."""
        ...

    def foreign(self, dataset: str) -> list[tuple[Stored, list[Ballot]]]:
        """The bullets of another dataset, in its order, with their standing votes."""
        ...

    def stored_response(self, key: IdempotencyKey) -> bytes | None:
        """Return the stored response of a request that is done. Raises RequestIdReused."""
        ...

    def store_response(self, key: IdempotencyKey, response: bytes, payload: bytes) -> None:
        """Store the response, and the payload worth keeping with it, together with what the request changed.

        Raises RequestDone when the request was done before, which must leave the transaction; RequestIdReused.
        """
        ...

    def store_embeddings(self, embeddings: NewEmbeddings) -> None:
        """Store the vectors of texts together with what the request changes."""
        ...

    def draft(self) -> Draft:
        """A draft of the next revision."""
        ...

    def append(
        self,
        draft: Draft,
        origin: Origin,
        summary: str,
        operations: Sequence[Operation] = (),
        votes: Sequence[VoteOutcome] = (),
    ) -> Revision:
        """Adds the draft to the log as the next revision."""
        ...

    def set_policy(self, policy: Policy) -> None:
        """Replaces the rules of the dataset."""
        ...

    def set_created_at(self, created_at: datetime) -> None:
        """Takes over the creation time of an imported playbook."""
        ...

    def pending(self, ids: Sequence[str]) -> list[PendingChange]:
        """The pending changes with these ids, in their order. PendingChangeNotFound for an unknown one."""
        ...

    def keep_pending(self, change: PendingChange) -> None:
        """Stores a pending change, new or decided."""
        ...

    @property
    def now(self) -> datetime:
        """The present, aware UTC, never before the newest revision."""
        ...


class PlaybookStore(Protocol):
    """The playbooks. All reads of one call see one state; errors are those of `domain.errors`."""

    async def write(self, dataset: str, work: Callable[[DatasetTransaction], T]) -> T:
        """Runs `work` in a transaction on `dataset`; nothing of it stays when it raises."""
        ...

    async def stored_response(self, key: IdempotencyKey) -> bytes | None:
        """Return the stored response of a request that is done. Raises RequestIdReused."""
        ...

    async def stored_request(self, request_id: str, method: str) -> tuple[bytes, bytes] | None:
        """Return the payload and the response of a request that is done, None when none is known."""
        ...

    async def load(self, dataset: str, revision: int | None = None) -> Snapshot:
        """The bullets as of a revision (None = the newest). RevisionAhead beyond the newest."""
        ...

    async def load_with_request(
        self, dataset: str, request_id: str, method: str
    ) -> tuple[Snapshot, tuple[bytes, bytes] | None]:
        """Return the newest bullets, and payload and response of a request if it is done, from one read."""
        ...

    async def revision_at(self, dataset: str, at: datetime) -> int:
        """The newest revision committed at or before `at`, 0 if none."""
        ...

    async def datasets(self, after: str, limit: int) -> list[Dataset]:
        """Datasets with a revision whose name sorts after `after`, by name."""
        ...

    async def head(self, dataset: str) -> DatasetHead:
        """Return the newest state of a dataset without its bullets."""
        ...

    async def history(self, dataset: str, before: int | None, limit: int) -> list[Revision]:
        """Revisions below `before` (None = all), newest first."""
        ...

    async def bullet_history(self, dataset: str, bullet_id: str) -> list[Revision]:
        """The revisions that changed a bullet, oldest first, each with only that bullet's changes."""
        ...

    async def changes_between(self, dataset: str, low: int, high: int) -> list[Change]:
        """The changes of the revisions in (low, high], in log order. RevisionAhead beyond the newest."""
        ...

    async def revisions_after(self, dataset: str, revision: int, limit: int) -> list[Revision]:
        """Revisions after `revision`, oldest first."""
        ...

    async def policy(self, dataset: str) -> Policy:
        """The rules of a dataset, defaults filled in."""
        ...

    async def pending(
        self, dataset: str, states: Sequence[PendingState], after: str, limit: int
    ) -> list[PendingChange]:
        """Pending changes in these states, oldest first, behind the one with id `after` (empty = from the start)."""
        ...
