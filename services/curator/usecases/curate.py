"""Curate: what a playbook learns from one reflection (section 4 of the curator's specification)."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from chassis.errors import Aborted, AlreadyExists, HanseiError
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
from services.curator.usecases.commit import Batch, Committed, commit, once
from services.curator.usecases.ports import PlaybookStore, Ticket, Writing
from services.curator.usecases.second_opinion import SecondOpinion
from services.curator.usecases.similarity import Similarity

DEFAULT_AUTHOR = "curator"
REASON_CHARS = 200
# A curation whose deltas lost to another one is proposed anew, once, against the newer playbook.
ATTEMPTS = 2

_log = logging.getLogger(__name__)


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


class Sections(Protocol):
    """Knows the sections of a dataset (C-28)."""

    def load(self, dataset: str) -> Sequence[SectionDefinition]:
        """The sections in order; never raises (C-29)."""
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


async def _embed_after(texts: Sequence[str]) -> None:
    """For those who leave it to the index to embed what is new."""


class CuratorAgent:
    """Loads, proposes, commits. The proposals are made outside any lock; the commit merges them into what is newest.

    `embed_ahead` is given the new texts just before they are committed.
    """

    def __init__(
        self,
        curator: Curator,
        playbook_store: PlaybookStore,
        section_loader: Sections,
        similarity: Similarity,
        embed_ahead: Callable[[Sequence[str]], Awaitable[None]] = _embed_after,
    ) -> None:
        self._curator = curator
        self._store = playbook_store
        self._sections = section_loader
        self._second_opinion = SecondOpinion(playbook_store, similarity)
        self._embed_ahead = embed_ahead

    async def run(self, reflection: Reflection, dataset: str, *, author: str = "") -> Curation:
        """The curation.

        Errors: InvalidDatasetName (C-43), SimilarityUnavailable; all else is told in the result (C-38 to C-42).
        """
        return await self._curated(reflection, dataset, author)

    async def run_once(
        self,
        reflection: Reflection,
        dataset: str,
        ticket: Ticket,
        encode: Callable[[Curation], bytes],
        *,
        author: str = "",
        payload: bytes = b"",
    ) -> bytes:
        """The encoded curation, or the stored answer when `ticket` was done before.

        Answer and payload are stored with what the curation changed. One that was not saved is not stored and may be
        sent again. Errors: InvalidDatasetName, RequestIdReused, SimilarityUnavailable.
        """
        done = await self._answered(ticket)
        if done is not None:
            return done
        stored: list[bytes] = []
        record = _Record(ticket, payload, encode, stored)
        curation = await self._curated(reflection, dataset, author, record)
        return stored[0] if stored else encode(curation)

    async def _curated(
        self, reflection: Reflection, dataset: str, author: str, record: _Record | None = None
    ) -> Curation:
        checked_dataset(dataset)
        request_id = record.ticket.request_id if record else str(uuid.uuid4())
        bullets = revision = 0
        for attempt in range(1, ATTEMPTS + 1):
            try:
                snapshot = await self._store.load(dataset)
                bullets, revision = snapshot.bullets, snapshot.revision
                proposed = await self._proposed(reflection, snapshot)
                work = _Work(self._curator.model, reflection, snapshot, proposed, author, request_id)
                patient = attempt < ATTEMPTS and self._curator.model != RULES
                return await self._committed(work, record, patient=patient)
            except _Outdated:
                continue
            except (AlreadyExists, SimilarityUnavailable):
                raise
            except Exception as error:
                return self._unsaved(dataset, bullets, revision, error)
        raise AssertionError("the last attempt returns")

    async def _answered(self, ticket: Ticket) -> bytes | None:
        try:
            return await self._store.answer(ticket)
        except AlreadyExists:
            raise
        except HanseiError:
            # Loading fails for the same reason in a moment, and says so in the result.
            return None

    async def _proposed(self, reflection: Reflection, snapshot: Snapshot) -> Proposed:
        if not reflection.insights:
            return Proposed()  # C-37
        sections = self._sections.load(snapshot.dataset)
        proposed = await self._curator.propose(reflection, snapshot, sections)
        allowed = await self._second_opinion.on(proposed.proposals, reflection, snapshot.dataset)
        await self._embed_ahead(new_texts(allowed))
        return replace(proposed, proposals=allowed)

    async def _committed(self, work: _Work, record: _Record | None, *, patient: bool) -> Curation:
        curated: list[Curation] = []

        def write(writing: Writing) -> bytes:
            committed = commit(writing, work.batch, always=True)
            if patient and committed.conflicts:
                raise _Outdated
            curated.append(work.told(committed))
            return record.encode(curated[-1]) if record else b""

        ticket, payload = (record.ticket, record.payload) if record else (None, b"")
        answer = await self._store.write(work.snapshot.dataset, once(ticket, write, payload))
        if record:
            record.stored.append(answer)
        # When another process did the same request meanwhile, its stored answer is what counts and nobody reads this.
        return curated[0] if curated else self._unsaved(work.snapshot.dataset, 0, 0, Aborted("done elsewhere"))

    def _unsaved(self, dataset: str, bullets: int, revision: int, error: Exception) -> Curation:
        _log.error("dataset %s: curation failed, nothing was saved", dataset, exc_info=error)
        result = CurationResult(deltas=[], bullets_before=bullets, bullets_after=bullets, summary=summarised([]))
        told = error.message if isinstance(error, HanseiError) else f"curation failed: {type(error).__name__}"
        return Curation(result, saved=False, error=told, revision=revision, model=self._curator.model)


@dataclass(frozen=True, slots=True)
class _Record:
    """How an answer is written and stored; `stored` receives it."""

    ticket: Ticket
    payload: bytes
    encode: Callable[[Curation], bytes]
    stored: list[bytes]


@dataclass(frozen=True, slots=True)
class _Work:
    """One attempt: what was proposed, against what."""

    model: str
    reflection: Reflection
    snapshot: Snapshot
    proposed: Proposed
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
