"""Curate: what a playbook learns from one reflection (section 4 of the curator's specification)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from chassis.errors import AlreadyExists, HanseiError
from chassis.logging import get_logger
from libs.storage.idempotency import IdempotencyKey, RequestDone
from services.curator.domain.curation import (
    RULES,
    CurationResult,
    Evaluation,
    Operation,
    Proposal,
    Reflection,
    SectionDefinition,
    Vote,
    VoteOutcome,
    summarised,
)
from services.curator.domain.errors import SimilarityUnavailable
from services.curator.domain.log import Kind, Origin
from services.curator.domain.merge import new_texts
from services.curator.domain.playbook import checked_dataset
from services.curator.domain.review import PendingChange
from services.curator.domain.snapshot import Snapshot
from services.curator.usecases.commit import Batch, Committed, commit
from services.curator.usecases.embed_new_texts import EmbedTexts, NewEmbeddings, embed_nothing
from services.curator.usecases.ports import DatasetTransaction, PlaybookStore, SectionSource
from services.curator.usecases.second_opinion import SecondOpinion
from services.curator.usecases.similarity import SimilaritySource

DEFAULT_AUTHOR = "curator"
REASON_CHARS = 200
# A curation whose deltas lost to another one is proposed anew, once, against the newer playbook.
ATTEMPTS = 2

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Proposed:
    """What a curator wants to change. `problem` says why a reply was dropped; `threshold` is the similarity of words
    from which a new lesson counts as one that came meanwhile (None = the dataset's own policy alone says so)."""

    proposals: tuple[Proposal, ...] = ()
    problem: str = ""
    threshold: float | None = None


class Curator(Protocol):
    """Decides which edits follow from a reflection; `model` is `offline` for rules."""

    model: str

    async def propose(
        self, reflection: Reflection, playbook: Snapshot, sections: Sequence[SectionDefinition]
    ) -> Proposed:
        """The edits, made against `playbook`. Anything it raises leaves the playbook as it is.

        SimilarityUnavailable reaches the caller, who may ask again; anything else is told in the result (C-38).
        """
        ...


@dataclass(frozen=True, slots=True)
class Curation:
    """What Curate answers (C-77). Unless `saved`, nothing has changed and `error` says why."""

    result: CurationResult
    saved: bool
    error: str
    revision: int
    model: str
    base: int = 0
    operations: tuple[Operation, ...] = field(default=())
    votes: tuple[VoteOutcome, ...] = field(default=())
    pending: tuple[PendingChange, ...] = field(default=())


class _Outdated(Exception):
    """The playbook changed under the proposals."""


class CuratorAgent:
    """Loads, proposes, embeds, commits. All but the commit is done outside any lock; it merges into what is newest."""

    def __init__(
        self,
        curator: Curator,
        playbook_store: PlaybookStore,
        section_source: SectionSource,
        similarity_source: SimilaritySource,
        embed_new_texts: EmbedTexts = embed_nothing,
    ) -> None:
        self._curator = curator
        self._store = playbook_store
        self._sections = section_source
        self._second_opinion = SecondOpinion(playbook_store, similarity_source)
        self._embed_new_texts = embed_new_texts

    async def run(self, reflection: Reflection, dataset: str, *, author: str = "") -> Curation:
        """The curation.

        Errors: InvalidDatasetName (C-43), SimilarityUnavailable; all else is told in the result (C-38 to C-42).
        """
        return await self._curated(reflection, dataset, author)

    async def run_once(
        self,
        reflection: Reflection,
        dataset: str,
        key: IdempotencyKey,
        encode: Callable[[Curation], bytes],
        *,
        author: str = "",
        payload: bytes = b"",
        prepared_revision: int | None = None,
    ) -> bytes:
        """Return the encoded curation, or the stored response when the request was done before.

        Response and payload are stored with what the curation changed. One that was not saved is not stored and may be
        sent again. The commit itself finds out whether the request was done; only proposals that cost tokens are
        preceded by a read, and that only if the dataset has changed since `prepared_revision`, at which the request
        was not done. Raises InvalidDatasetName, RequestIdReused, SimilarityUnavailable.
        """
        record = _Record(key, payload, encode, prepared_revision)
        try:
            if prepared_revision is None:
                await self._require_new(record)
            curation = await self._curated(reflection, dataset, author, record)
        except RequestDone as done:
            return done.response
        return encode(curation) if record.response is None else record.response

    async def _curated(
        self, reflection: Reflection, dataset: str, author: str, record: _Record | None = None
    ) -> Curation:
        checked_dataset(dataset)
        request_id = record.key.request_id if record else str(uuid.uuid4())
        bullets = revision = 0
        for attempt in range(1, ATTEMPTS + 1):
            try:
                snapshot = await self._store.load(dataset)
                bullets, revision = snapshot.bullets, snapshot.revision
                if record and record.prepared_revision not in (None, revision):
                    await self._require_new(record)
                proposed = await self._proposed(reflection, snapshot)
                embeddings = await self._embed_new_texts(new_texts(proposed.proposals))
                work = _Work(self._curator.model, reflection, snapshot, proposed, embeddings, author, request_id)
                patient = attempt < ATTEMPTS and self._curator.model != RULES
                return await self._committed(work, record, patient=patient)
            except _Outdated:
                continue
            except (AlreadyExists, RequestDone, SimilarityUnavailable):
                raise
            except Exception as error:
                return self._unsaved(dataset, bullets, revision, error)
        raise AssertionError("the last attempt returns")

    async def _require_new(self, record: _Record) -> None:
        """Raise RequestDone when the request was done before, and a model would be asked for nothing."""
        if self._curator.model == RULES:
            return
        try:
            stored = await self._store.stored_response(record.key)
        except AlreadyExists:
            raise
        except HanseiError:
            return  # Loading fails for the same reason in a moment, and says so in the result.
        if stored is not None:
            raise RequestDone(stored)

    async def _proposed(self, reflection: Reflection, snapshot: Snapshot) -> Proposed:
        if not reflection.insights:
            return Proposed()  # C-37
        sections = await self._sections.read(snapshot.dataset)
        proposed = await self._curator.propose(reflection, snapshot, sections)
        allowed = await self._second_opinion.on(proposed.proposals, reflection, snapshot.dataset)
        return replace(proposed, proposals=allowed)

    async def _committed(self, work: _Work, record: _Record | None, *, patient: bool) -> Curation:
        def write(transaction: DatasetTransaction) -> tuple[Curation, bytes | None]:
            transaction.store_embeddings(work.embeddings)
            committed = commit(transaction, work.batch, always=True)
            if patient and committed.conflicts:
                raise _Outdated
            curation = work.told(committed)
            if record is None:
                return curation, None
            response = record.encode(curation)
            transaction.store_response(record.key, response, record.payload)
            return curation, response

        curation, response = await self._store.write(work.snapshot.dataset, write)
        if record:
            # Only now is it on disk: what a commit that failed would have said is not the response.
            record.response = response
        return curation

    def _unsaved(self, dataset: str, bullets: int, revision: int, error: Exception) -> Curation:
        _log.error("curation failed; nothing was saved", dataset=dataset, exc_info=error)
        result = CurationResult(deltas=[], bullets_before=bullets, bullets_after=bullets, summary=summarised([]))
        told = error.message if isinstance(error, HanseiError) else f"curation failed: {type(error).__name__}"
        return Curation(result, saved=False, error=told, revision=revision, model=self._curator.model)


@dataclass(slots=True)
class _Record:
    """How a response is encoded and stored; `response` is the one that was."""

    key: IdempotencyKey
    payload: bytes
    encode: Callable[[Curation], bytes]
    prepared_revision: int | None = None
    response: bytes | None = None


@dataclass(frozen=True, slots=True)
class _Work:
    """One attempt: what was proposed, against what."""

    model: str
    reflection: Reflection
    snapshot: Snapshot
    proposed: Proposed
    embeddings: NewEmbeddings
    author: str
    request_id: str

    @property
    def batch(self) -> Batch:
        reflection = self.reflection
        voter = reflection.trajectory_id or f"request:{self.request_id}"
        return Batch(
            origin=Origin(
                Kind.CURATE,
                self.author or DEFAULT_AUTHOR,
                reason=reflection.query[:REASON_CHARS],
                request_id=self.request_id,
                source_trajectory=reflection.trajectory_id,
                model=self.model,
                signal=reflection.signal,
            ),
            proposals=self.proposed.proposals,
            votes=numbered_votes(reflection.evaluations, voter),
            base=self.snapshot.revision,
            served=reflection.served,
            reliable=reflection.reliable,
            threshold=self.proposed.threshold,
        )

    def told(self, committed: Committed) -> Curation:
        deltas = [proposal.delta for proposal in self.proposed.proposals]
        return Curation(
            CurationResult(
                deltas=deltas,
                bullets_before=committed.bullets_before,
                bullets_after=committed.bullets_after,
                summary=summarised(deltas),
            ),
            saved=True,
            error=self.proposed.problem,
            revision=committed.revision,
            model=self.model,
            base=self.snapshot.revision,
            operations=committed.operations,
            votes=committed.votes,
            pending=committed.pending,
        )


def numbered_votes(evaluations: Sequence[Evaluation], trajectory: str) -> list[Vote]:
    """Votes from evaluations; a bullet judged again within one reflection gets the next round (C-59)."""
    rounds: dict[str, int] = {}
    votes: list[Vote] = []
    for one in evaluations:
        number = rounds.get(one.bullet_id, 0)
        rounds[one.bullet_id] = number + 1
        votes.append(Vote(one.bullet_id, one.tag, trajectory, number, one.reason))
    return votes
