"""Curate: edit a playbook by the lessons of one reflection."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from chassis.errors import AlreadyExists, HanseiError
from chassis.json_texts import replace_nul
from chassis.logging import get_logger
from libs.storage.idempotency import IdempotencyKey, RequestDone
from services.curator.domain.curation import (
    OFFLINE_MODEL,
    CurationResult,
    Evaluation,
    Operation,
    Proposal,
    Reflection,
    SectionDefinition,
    Vote,
    VoteOutcome,
    summarize_deltas,
)
from services.curator.domain.errors import SimilarityUnavailable
from services.curator.domain.evidence import Evidence, list_operations
from services.curator.domain.log import Origin, RevisionKind
from services.curator.domain.merge import find_new_texts, join_sources
from services.curator.domain.playbook import validate_dataset_name
from services.curator.domain.review import PendingChange
from services.curator.domain.similarity import find_subject
from services.curator.domain.snapshot import Snapshot
from services.curator.usecases.commit import EditBatch, PlaybookChanged, commit
from services.curator.usecases.corroboration import CorroborationRule
from services.curator.usecases.embed_new_texts import EmbedTexts, NewEmbeddings, embed_nothing
from services.curator.usecases.generalize import EvidenceUpdate, generalize
from services.curator.usecases.neighbourhood import Neighbourhood, load_waiting_additions
from services.curator.usecases.ports import DatasetTransaction, PlaybookStore, SectionSource
from services.curator.usecases.similarity import SimilaritySource

DEFAULT_AUTHOR = "curator"
REASON_CHARS = 200
# A curation with conflicts, or whose neighbourhood changed, is proposed again, based on the newer playbook.
ATTEMPTS = 3
MAX_CHECKS = 5
"""Checks of the commits since proposals were made; beyond them the proposals are committed as they are."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ProposedEdits:
    """The edits that a curator proposes.

    `problem` describes the missing parts of the reply of the model. `threshold` is the similarity of words from which a
    new lesson equals one that was added meanwhile (None = only the policy of the dataset decides).
    """

    proposals: tuple[Proposal, ...] = ()
    problem: str = ""
    threshold: float | None = None
    evidence: EvidenceUpdate | None = None


class Curator(Protocol):
    """Proposes edits from a reflection; `model` is `offline` for rules."""

    model: str

    async def propose(
        self,
        reflection: Reflection,
        playbook: Snapshot,
        sections: Sequence[SectionDefinition],
        waiting: Sequence[PendingChange],
    ) -> ProposedEdits:
        """Return the edits, based on `playbook` and on the additions that wait.

        Raises SimilarityUnavailable, which reaches the client; other errors are reported in the curation (C-38).
        """


@dataclass(frozen=True, slots=True)
class Curation:
    """The response of Curate (C-77). Unless `saved`, nothing has changed and `error` is the reason."""

    result: CurationResult
    saved: bool
    error: str
    revision: int
    model: str
    base_revision: int = 0
    operations: tuple[Operation, ...] = ()
    votes: tuple[VoteOutcome, ...] = ()
    pending: tuple[PendingChange, ...] = ()


class _NewerRevision(Exception):
    """There are commits after the revision up to which the proposals were checked."""


@dataclass(frozen=True, slots=True)
class _CurateRequest:
    """A call of Curate; `encode` encodes the response that is stored with `payload` under `key`."""

    reflection: Reflection
    dataset: str
    author: str
    request_id: str
    key: IdempotencyKey | None = None
    encode: Callable[[Curation], bytes] = lambda curation: b""
    payload: bytes = b""
    prepared_revision: int | None = None


class CuratorAgent:
    """Loads a playbook; proposes, embeds and commits edits. Only the commit takes a lock."""

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
        self._corroboration_rule = CorroborationRule(playbook_store, similarity_source)
        self._neighbourhood = Neighbourhood(playbook_store, similarity_source)
        self._embed_new_texts = embed_new_texts

    async def run(self, reflection: Reflection, dataset: str, *, author: str = "") -> Curation:
        """Return the curation of a reflection.

        Raises InvalidDatasetName (C-43), SimilarityUnavailable; other errors are reported in the curation (C-38 to
        C-42).
        """
        curation, _ = await self._curate(_CurateRequest(reflection, dataset, author, str(uuid.uuid4())))
        return curation

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
        """Return the encoded curation, or the stored response if the request was done before.

        Response and payload are stored in the transaction of the curation; a curation that was not saved is not stored,
        and its request can be repeated. The commit itself detects a request that was done. Proposals that cost tokens
        are preceded by a read, unless the dataset is still at `prepared_revision`, at which the request was not done.
        Raises InvalidDatasetName, RequestIdReused, SimilarityUnavailable.
        """
        request = _CurateRequest(reflection, dataset, author, key.request_id, key, encode, payload, prepared_revision)
        try:
            if prepared_revision is None:
                await self._require_new(key)
            curation, response = await self._curate(request)
        except RequestDone as done:
            return done.response
        return encode(curation) if response is None else response

    async def _curate(self, request: _CurateRequest) -> tuple[Curation, bytes | None]:
        """Load the playbook, propose edits and commit them, again if the playbook changed.

        Return the curation, and its encoded form if it was stored.
        """
        validate_dataset_name(request.dataset)
        bullets = revision = 0
        for attempt in range(1, ATTEMPTS + 1):
            try:
                operations = [] if self._uses_model else list_operations(request.reflection)
                snapshot, evidence = await self._store.load_with_evidence(request.dataset, operations)
                bullets, revision = snapshot.bullets, snapshot.revision
                if request.prepared_revision not in (None, revision):
                    await self._require_new(request.key)
                waiting = await self._load_waiting(request)
                edits = await self._propose(request.reflection, snapshot, waiting, evidence)
                embeddings = await self._embed_new_texts(find_new_texts(edits.proposals))
                is_repeatable = attempt < ATTEMPTS and (self._uses_model or bool(request.reflection.calls))
                if not is_repeatable or not self._uses_model or not edits.proposals:
                    return await self._commit(request, snapshot, edits, embeddings, is_repeatable=is_repeatable)
                return await self._commit_checked(request, snapshot, edits, embeddings, waiting)
            except PlaybookChanged:
                continue
            except (AlreadyExists, RequestDone, SimilarityUnavailable):
                raise
            except Exception as error:
                return self._report_failure(request.dataset, bullets, revision, error), None
        raise AssertionError("unreachable: the last attempt returns or raises")

    @property
    def _uses_model(self) -> bool:
        return self._curator.model != OFFLINE_MODEL

    async def _load_waiting(self, request: _CurateRequest) -> Sequence[PendingChange]:
        """Return the additions that wait, which only a model is told."""
        if not self._uses_model or not request.reflection.insights:
            return ()
        return await load_waiting_additions(self._store, request.dataset)

    async def _commit_checked(
        self,
        request: _CurateRequest,
        snapshot: Snapshot,
        edits: ProposedEdits,
        embeddings: NewEmbeddings,
        waiting: Sequence[PendingChange],
    ) -> tuple[Curation, bytes | None]:
        """Commit unless a commit since `snapshot` added or changed a bullet that is similar to a proposal.

        Raises PlaybookChanged.
        """
        known_waiting = {change.id for change in waiting}
        checked: int | None = snapshot.revision
        for check in range(1, MAX_CHECKS + 1):
            try:
                return await self._commit(request, snapshot, edits, embeddings, is_repeatable=True, checked=checked)
            except _NewerRevision:
                newest = await self._store.load(request.dataset)
            if await self._neighbourhood.has_changed(edits.proposals, known_waiting, snapshot.revision, newest):
                raise PlaybookChanged
            checked = newest.revision if check < MAX_CHECKS - 1 else None
        raise AssertionError("unreachable: the last commit is not checked")

    async def _require_new(self, key: IdempotencyKey | None) -> None:
        """Raise RequestDone if the request was done before, so that no model is called for it."""
        if not self._uses_model or key is None:
            return
        try:
            stored = await self._store.find_response(key)
        except AlreadyExists:
            raise
        except HanseiError:
            return  # Loading fails next for the same reason, and the curation reports it.
        if stored is not None:
            raise RequestDone(stored)

    async def _propose(
        self,
        reflection: Reflection,
        snapshot: Snapshot,
        waiting: Sequence[PendingChange],
        evidence: Mapping[str, Evidence],
    ) -> ProposedEdits:
        edits = ProposedEdits()  # C-37
        if reflection.insights:
            sections = await self._sections.read(snapshot.dataset)
            edits = await self._curator.propose(reflection, snapshot, sections, waiting)
            proposals = await self._corroboration_rule.mark_uncorroborated(
                edits.proposals, reflection, snapshot.dataset
            )
            edits = replace(edits, proposals=proposals)
        if self._uses_model or not reflection.calls:
            return edits
        update = await generalize(reflection, snapshot, evidence)
        covered = [proposal for proposal in edits.proposals if _is_covered_by_evidence(proposal, update)]
        remaining = (proposal for proposal in edits.proposals if proposal not in covered)
        return replace(edits, proposals=(*remaining, *_add_details(update.proposals, covered)), evidence=update)

    async def _commit(
        self,
        request: _CurateRequest,
        snapshot: Snapshot,
        edits: ProposedEdits,
        embeddings: NewEmbeddings,
        *,
        is_repeatable: bool,
        checked: int | None = None,
    ) -> tuple[Curation, bytes | None]:
        """Commit the edits; with `checked`, a revision, only if no newer one exists.

        With `is_repeatable` conflicts raise PlaybookChanged, so that the caller proposes the edits again.

        Raises _NewerRevision, PlaybookChanged.
        """
        batch = _build_batch(request, self._curator.model, snapshot, edits)

        def commit_edits(transaction: DatasetTransaction) -> tuple[Curation, bytes | None]:
            if checked is not None and transaction.revision > checked:
                raise _NewerRevision
            if edits.evidence is not None and not edits.evidence.store(transaction, must_match=is_repeatable):
                raise PlaybookChanged
            transaction.store_embeddings(embeddings)
            committed = commit(transaction, batch, always=True, refuses_conflicts=is_repeatable)
            deltas = [proposal.delta for proposal in edits.proposals]
            before, after = committed.bullets_before, committed.bullets_after
            summary = summarize_deltas(deltas)
            curation = Curation(
                CurationResult(deltas=deltas, bullets_before=before, bullets_after=after, summary=summary),
                saved=True,
                error=edits.problem,
                revision=committed.revision,
                model=self._curator.model,
                base_revision=snapshot.revision,
                operations=committed.operations,
                votes=committed.votes,
                pending=committed.pending,
            )
            if request.key is None:
                return curation, None
            response = request.encode(curation)
            transaction.store_response(request.key, response, request.payload)
            return curation, response

        return await self._store.write(snapshot.dataset, commit_edits)

    def _report_failure(self, dataset: str, bullets: int, revision: int, error: Exception) -> Curation:
        _log.error("curation failed; nothing was saved", dataset=dataset, exc_info=error)
        result = CurationResult(deltas=[], bullets_before=bullets, bullets_after=bullets, summary=summarize_deltas([]))
        message = error.message if isinstance(error, HanseiError) else f"curation failed: {type(error).__name__}"
        return Curation(result, saved=False, error=message, revision=revision, model=self._curator.model)


def _is_covered_by_evidence(proposal: Proposal, evidence: EvidenceUpdate) -> bool:
    """Return whether a lesson or a report from evidence covers the subject of a proposal of this trajectory."""
    if proposal.confirmed_id or proposal.delta.type == "DELETE":
        return False
    return find_subject(proposal.delta.content) in evidence.subjects


def _add_details(proposals: Iterable[Proposal], covered: Iterable[Proposal]) -> Iterator[Proposal]:
    """Yield proposals; one that adds a bullet gets the sources and the target of those that it covers."""
    by_subject = {find_subject(proposal.delta.content): proposal for proposal in covered}
    for proposal in proposals:
        same = by_subject.get(find_subject(proposal.delta.content)) if proposal.delta.type == "ADD" else None
        if same is None:
            yield proposal
        else:
            sources = join_sources(same.sources, proposal.sources)
            yield replace(proposal, sources=sources, target=proposal.target or same.target)


def _build_batch(request: _CurateRequest, model: str, snapshot: Snapshot, edits: ProposedEdits) -> EditBatch:
    reflection = request.reflection
    origin = Origin(
        RevisionKind.CURATE,
        request.author or DEFAULT_AUTHOR,
        reason=replace_nul(reflection.query[:REASON_CHARS]),
        request_id=request.request_id,
        source_trajectory=reflection.trajectory_id,
        model=model,
        signal=reflection.signal,
    )
    return EditBatch(
        origin,
        proposals=edits.proposals,
        votes=number_votes(reflection.evaluations, reflection.trajectory_id or f"request:{request.request_id}"),
        base_revision=snapshot.revision,
        served=reflection.served,
        is_reliable=reflection.is_reliable,
        threshold=edits.threshold,
    )


def number_votes(evaluations: Sequence[Evaluation], trajectory: str) -> list[Vote]:
    """Return votes from evaluations; each further evaluation of a bullet gets the next round (C-59)."""
    rounds: Counter[str] = Counter()
    votes: list[Vote] = []
    for evaluation in evaluations:
        bullet_id = evaluation.bullet_id
        votes.append(Vote(bullet_id, evaluation.tag, trajectory, rounds[bullet_id], evaluation.reason))
        rounds[bullet_id] += 1
    return votes
