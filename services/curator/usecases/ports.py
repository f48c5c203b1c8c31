"""What the use cases need from the world outside, as they name it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from services.curator.domain.curation import Operation, VoteOutcome
from services.curator.domain.draft import Ballot, Draft, View
from services.curator.domain.log import Change, Origin, Revision, Stored
from services.curator.domain.review import PendingChange, PendingState
from services.curator.domain.rules import Policy
from services.curator.domain.snapshot import Snapshot

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ticket:
    """A request that is done at most once: its id, its method, and a digest of its payload."""

    request_id: str
    method: str
    digest: str


@dataclass(frozen=True, slots=True)
class Dataset:
    """What is known of a dataset without reading its bullets."""

    name: str
    revision: int
    bullets: int
    updated_at: datetime


class Writing(View, Protocol):
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

    def answer(self, ticket: Ticket) -> bytes | None:
        """The stored answer of a request that is done. RequestIdReused when it had another payload."""
        ...

    def record(self, ticket: Ticket, response: bytes, payload: bytes) -> None:
        """Stores the answer, and the payload worth keeping with it, together with what the request changed."""
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

    async def write(self, dataset: str, work: Callable[[Writing], T]) -> T:
        """Runs `work` in a transaction on `dataset`; nothing of it stays when it raises."""
        ...

    async def answer(self, ticket: Ticket) -> bytes | None:
        """The stored answer of a request that is done. RequestIdReused when it had another payload."""
        ...

    async def done(self, request_id: str, method: str) -> tuple[bytes, bytes] | None:
        """Payload and answer of a request that is done, None when none is known."""
        ...

    async def load(self, dataset: str, revision: int | None = None) -> Snapshot:
        """The bullets as of a revision (None = the newest). RevisionAhead beyond the newest."""
        ...

    async def revision_at(self, dataset: str, at: datetime) -> int:
        """The newest revision committed at or before `at`, 0 if none."""
        ...

    async def datasets(self, after: str, limit: int) -> list[Dataset]:
        """Datasets with a revision whose name sorts after `after`, by name."""
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
