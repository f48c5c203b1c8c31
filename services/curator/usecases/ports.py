"""The ports of the use cases: the store, a transaction on one dataset, the change feed, the sections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from libs.storage.idempotency import IdempotencyKey
from services.curator.domain.curation import Operation, SectionDefinition, VoteOutcome
from services.curator.domain.draft import Ballot, DatasetView, Draft
from services.curator.domain.evidence import Evidence
from services.curator.domain.log import Origin, Revision, SlotChange, StoredBullet
from services.curator.domain.policy import Policy
from services.curator.domain.review import PendingChange, PendingState
from services.curator.domain.snapshot import Snapshot
from services.curator.usecases.embed_new_texts import NewEmbeddings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset without its bullets; `updated_at` is None at revision 0, `deleted_at` if it was never deleted."""

    name: str
    revision: int = 0
    bullets: int = 0
    updated_at: datetime | None = None
    deleted_at: datetime | None = None
    deleted_revision: int = 0
    pending_changes: int = 0


@dataclass(frozen=True, slots=True)
class DatasetHead:
    """The newest state of a dataset: its counts and its policy, defaults filled in."""

    dataset: Dataset
    policy: Policy
    retired_bullets: int = 0


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The ends of the log of a dataset, and when a revision was committed; None if the log does not have it."""

    newest: int = 0
    deleted_revision: int = 0
    first_revision: int = 1
    committed_at: datetime | None = None


class DatasetTransaction(DatasetView, Protocol):
    """A dataset inside a writing transaction, locked against other writers."""

    dataset: str
    deleted_revision: int
    """The revision of the last deletion; 0: the dataset was never deleted."""
    first_revision: int
    """The first revision that the log retains; 1: it retains all."""

    @property
    def policy(self) -> Policy:
        """Return the policy of the dataset."""

    def count_tokens(self) -> int:
        """Return the estimated tokens of all bullets."""

    def list_changes_after(self, revision: int) -> list[SlotChange]:
        """Return the changes of all revisions after `revision`, in log order."""

    def find_revisions(self, trajectory: str) -> list[int]:
        """Return the revisions that came from one trajectory, oldest first, without its revocations."""

    def list_revoked_trajectories(self) -> set[str]:
        """Return the trajectories that were revoked."""

    def has_votes_of(self, trajectory: str) -> bool:
        """Return True if the trajectory ever voted here, also with votes that were withdrawn."""

    def find_changes(self, slots: Sequence[int]) -> list[SlotChange]:
        """Return all changes of these slots, in log order."""

    def list_changes_in(self, revisions: Sequence[int]) -> list[SlotChange]:
        """Return the changes of these revisions, in log order."""

    def list_ballots_since(self, revision: int) -> list[Ballot]:
        """Return the votes after `revision` that were not withdrawn."""

    def list_ballots_withdrawn_since(self, revision: int) -> list[Ballot]:
        """Return the votes that stood at `revision` and were withdrawn after it."""

    def list_ballots_on(self, slot: int) -> list[Ballot]:
        """Return the standing votes on one bullet."""

    def list_bullets_with_ballots(self, dataset: str) -> list[tuple[StoredBullet, list[Ballot]]]:
        """Return the bullets of another dataset, in its order, with their standing votes."""

    def find_response(self, key: IdempotencyKey) -> bytes | None:
        """Return the stored response of a request that is done. Raises RequestIdReused."""

    def store_response(self, key: IdempotencyKey, response: bytes, payload: bytes) -> None:
        """Store the response and the payload of a request together with its changes.

        Raises RequestDone when the request was done before, which rolls the transaction back; RequestIdReused.
        """

    def store_embeddings(self, embeddings: NewEmbeddings) -> None:
        """Store the vectors of texts together with the changes of the request."""

    def create_draft(self) -> Draft:
        """Return an empty draft of the next revision."""

    def append(
        self,
        draft: Draft,
        origin: Origin,
        summary: str,
        operations: Sequence[Operation] = (),
        votes: Sequence[VoteOutcome] = (),
    ) -> Revision:
        """Append the draft to the log as the next revision."""

    def delete_contents(self, origin: Origin) -> Revision:
        """Delete all rows of the dataset, and append the deletion as the one revision that stays. DatasetNotFound."""

    def set_policy(self, policy: Policy) -> None:
        """Replace the policy of the dataset."""

    def set_created_at(self, created_at: datetime) -> None:
        """Set the creation time to that of an imported playbook."""

    def find_pending_changes(self, ids: Sequence[str]) -> list[PendingChange]:
        """Return the pending changes with these ids, in their order. Raises PendingChangeNotFound."""

    def store_pending(self, *changes: PendingChange) -> None:
        """Store pending changes, new or decided."""

    def load_evidence(self, operations: Sequence[str] | None = None) -> dict[str, Evidence]:
        """Return the records of evidence by operation: of these operations, or all."""

    def store_evidence(self, records: Iterable[Evidence]) -> None:
        """Store records of evidence in place of those of their operations."""

    @property
    def now(self) -> datetime:
        """Return the present time, aware UTC, never before the newest revision."""


class PlaybookStore(Protocol):
    """The playbooks. All reads of one call see one state."""

    async def write(self, dataset: str, work: Callable[[DatasetTransaction], T]) -> T:
        """Run `work` in a transaction on `dataset`; roll back when it raises."""

    async def find_response(self, key: IdempotencyKey) -> bytes | None:
        """Return the stored response of a request that is done. Raises RequestIdReused."""

    async def find_request(self, dataset: str, request_id: str, method: str) -> tuple[bytes, bytes] | None:
        """Return the payload and the response of a request of a dataset's tenant that is done, else None."""

    async def load(self, dataset: str, revision: int | None = None) -> Snapshot:
        """Return the bullets as of a revision (None = the newest). Raises RevisionAhead."""

    async def load_with_request(
        self, dataset: str, request_id: str, method: str
    ) -> tuple[Snapshot, tuple[bytes, bytes] | None]:
        """Return the newest bullets, and payload and response of a request if it is done, from one read."""

    async def load_with_evidence(
        self, dataset: str, operations: Sequence[str]
    ) -> tuple[Snapshot, Mapping[str, Evidence]]:
        """Return the newest bullets, and the records of evidence of these operations, by operation, from one read."""

    async def find_revision_at(self, dataset: str, at: datetime) -> int:
        """Return the newest revision committed at or before `at`, 0 if none."""

    async def list_datasets(self, after: str, limit: int, *, deleted: bool = False) -> list[Dataset]:
        """Return datasets with a revision, or those that were deleted, whose name sorts after `after`, by name."""

    async def require(self, *datasets: str) -> None:
        """Raise DatasetNotFound, with similar names, unless the datasets exist."""

    async def load_head(self, dataset: str) -> DatasetHead:
        """Return the newest state of a dataset without its bullets."""

    async def find_position(self, dataset: str, revision: int) -> LogPosition:
        """Return the ends of the log of a dataset, and when `revision` was committed."""

    async def erase_deleted_rows(self) -> None:
        """Remove the contents of deleted datasets from the files of the database, unless that is done."""

    async def list_heads(self) -> dict[str, int]:
        """Return the newest revision of every dataset."""

    async def list_revisions(self, dataset: str, before: int | None, limit: int) -> list[Revision]:
        """Return revisions below `before` (None = all), newest first."""

    async def list_bullet_revisions(self, dataset: str, bullet_id: str) -> list[Revision]:
        """Return the revisions that changed a bullet, oldest first, each with only that bullet's changes."""

    async def list_revisions_after(self, dataset: str, revision: int, limit: int) -> list[Revision]:
        """Return revisions after `revision`, oldest first."""

    async def load_policy(self, dataset: str) -> Policy:
        """Return the policy of a dataset, defaults filled in."""

    async def list_pending_changes(
        self, dataset: str, states: Sequence[PendingState], after: str, limit: int
    ) -> list[PendingChange]:
        """Return pending changes in these states, oldest first, after the one with id `after` (empty = all)."""


class Feed(Protocol):
    """The revisions of all datasets as they are committed."""

    async def list_revisions_after(self, dataset: str, number: int) -> Sequence[Revision]:
        """Return some revisions right after `number`, oldest first, without gap; [] when there is none yet."""

    async def wait(self, dataset: str, revision: int, seconds: float) -> bool:
        """Return True once the dataset has a revision after `revision`, False after `seconds` without one."""

    def get_head(self, dataset: str) -> int:
        """Return the newest revision that this process knows."""


class SectionSource(Protocol):
    """The sections of datasets (C-28)."""

    async def read(self, dataset: str) -> Sequence[SectionDefinition]:
        """Return the sections of a dataset in order; never raises (C-29)."""
