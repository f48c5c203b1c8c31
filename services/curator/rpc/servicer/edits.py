"""Change playbooks; each request is done once, by its request_id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from hansei.playbook.v1 import playbook_service_pb2 as service_pb
from hansei.playbook.v1 import review_pb2
from libs.storage.idempotency import IdempotencyKey
from libs.storage.page_tokens import decode_page_token, encode_page_token
from services.curator.domain.log import RevisionKind, join_by_id
from services.curator.domain.merge import new_texts
from services.curator.domain.review import PendingChange, PendingState
from services.curator.rpc.convert import playbook as convert
from services.curator.rpc.servicer.mutation import encode_message, mutate, origin_of
from services.curator.usecases.commit import EditBatch, commit
from services.curator.usecases.embed_new_texts import EmbedTexts
from services.curator.usecases.merge_playbooks import merge_playbooks
from services.curator.usecases.ports import DatasetTransaction, PlaybookStore
from services.curator.usecases.restore import restore
from services.curator.usecases.review import ReviewDecision, decide
from services.curator.usecases.revoke import Revocation, revoke
from services.curator.usecases.set_policy import set_policy

DEFAULT_PAGE = 100


class PlaybookEdits:
    """The changing methods of PlaybookService, files excepted."""

    def __init__(self, store: PlaybookStore, embed_new_texts: EmbedTexts) -> None:
        self._store = store
        self._embed_new_texts = embed_new_texts

    async def ApplyDeltas(self, request: service_pb.ApplyDeltasRequest, context: Any) -> bytes:
        """Apply deltas and votes as one revision."""
        batch = EditBatch(
            origin=origin_of(RevisionKind.APPLY, request, request.source_trajectory),
            proposals=[convert.proposal_from(delta, request.source_trajectory) for delta in request.deltas],
            votes=[convert.vote_from(vote) for vote in request.votes],
            base_revision=request.base_revision if request.HasField("base_revision") else None,
        )

        def work(transaction: DatasetTransaction) -> service_pb.ApplyDeltasResponse:
            transaction.store_embeddings(embeddings)
            done = commit(transaction, batch)
            return service_pb.ApplyDeltasResponse(
                revision=done.revision,
                operations=[convert.operation_message(operation) for operation in done.operations],
                votes=[convert.vote_message(outcome) for outcome in done.votes],
                conflicts=convert.conflict_messages(done.operations),
                pending=[convert.pending_message(change) for change in done.pending],
                bullets_after=done.bullets_after,
            )

        embeddings = await self._embed_new_texts(new_texts(batch.proposals))
        return await self._mutate(request, work)

    async def RestoreRevision(self, request: service_pb.RestoreRevisionRequest, context: Any) -> bytes:
        """Make an earlier revision current again."""

        def work(transaction: DatasetTransaction) -> service_pb.RestoreRevisionResponse:
            changes = restore(transaction, request.revision, origin_of(RevisionKind.RESTORE, request))
            return service_pb.RestoreRevisionResponse(
                revision=transaction.revision,
                changes=[convert.change_message(change) for change in join_by_id(changes)],
            )

        return await self._mutate(request, work)

    async def RevokeTrajectory(self, request: service_pb.RevokeTrajectoryRequest, context: Any) -> bytes:
        """Undo the effects of a trajectory; a dry run is not logged."""
        origin = origin_of(RevisionKind.REVOKE, request)
        if request.dry_run:
            revocation = await self._store.write(
                request.dataset, lambda transaction: revoke(transaction, request.trajectory_id, origin, dry_run=True)
            )
            return encode_message(_revocation_response(revocation))

        def work(transaction: DatasetTransaction) -> service_pb.RevokeTrajectoryResponse:
            return _revocation_response(revoke(transaction, request.trajectory_id, origin, dry_run=False))

        return await self._mutate(request, work)

    async def MergePlaybooks(self, request: service_pb.MergePlaybooksRequest, context: Any) -> bytes:
        """Merge several playbooks into one."""
        threshold = request.duplicate_threshold if request.HasField("duplicate_threshold") else None
        names = [name for name in request.from_datasets if name != request.dataset]

        def work(transaction: DatasetTransaction) -> service_pb.MergePlaybooksResponse:
            merged = merge_playbooks(transaction, names, threshold, origin_of(RevisionKind.MERGE, request))
            return service_pb.MergePlaybooksResponse(
                revision=merged.revision,
                added=merged.added,
                merged=merged.merged,
                conflicts=[
                    service_pb.MergeConflict(
                        ours=convert.bullet_message(conflict.ours),
                        theirs=convert.bullet_message(conflict.theirs),
                        from_dataset=conflict.from_dataset,
                        new_id=conflict.new_id,
                        reason=conflict.reason,
                    )
                    for conflict in merged.conflicts
                ],
            )

        return await self._mutate(request, work)

    async def GetPolicy(self, request: service_pb.GetPolicyRequest, context: Any) -> service_pb.GetPolicyResponse:
        """Return the policy of a dataset."""
        policy = await self._store.policy(request.dataset)
        return service_pb.GetPolicyResponse(policy=convert.policy_message(policy))

    async def SetPolicy(self, request: service_pb.SetPolicyRequest, context: Any) -> bytes:
        """Replace the policy of a dataset."""
        policy = convert.policy_from(request.policy)

        def work(transaction: DatasetTransaction) -> service_pb.SetPolicyResponse:
            return service_pb.SetPolicyResponse(policy=convert.policy_message(set_policy(transaction, policy)))

        return await self._mutate(request, work)

    async def ListPendingChanges(
        self, request: service_pb.ListPendingChangesRequest, context: Any
    ) -> service_pb.ListPendingChangesResponse:
        """Return a page of pending changes, oldest first, each with the present bullet that it edits."""
        states = [convert.state_from(state) for state in request.states if state] or [PendingState.WAITING]
        (after,) = decode_page_token(request, str) or ("",)
        size = request.page_size or DEFAULT_PAGE
        changes = await self._store.pending(request.dataset, states, after, size + 1)
        snapshot = await self._store.load(request.dataset)
        present = {stored.bullet.id: stored.bullet for stored in reversed(snapshot.all_bullets())}
        page = changes[:size]
        return service_pb.ListPendingChangesResponse(
            changes=[
                convert.pending_message(change, present.get(change.proposal.delta.bullet_id or ""))
                if change.proposal.delta.type != "ADD"
                else convert.pending_message(change)
                for change in page
            ],
            next_page_token=encode_page_token(request, page[-1].id) if len(changes) > size else "",
        )

    async def DecidePendingChanges(self, request: service_pb.DecidePendingChangesRequest, context: Any) -> bytes:
        """Approve or reject pending changes."""
        is_approved = request.decision == service_pb.DECISION_APPROVE
        decision = ReviewDecision.APPROVE if is_approved else ReviewDecision.REJECT

        def work(transaction: DatasetTransaction) -> service_pb.DecidePendingChangesResponse:
            decided = decide(transaction, request.ids, decision, origin_of(RevisionKind.REVIEW, request))
            return service_pb.DecidePendingChangesResponse(
                revision=decided.revision,
                changes=[_message_with_bullet(transaction, change) for change in decided.changes],
            )

        return await self._mutate(request, work)

    async def _mutate(self, request: Any, work: Callable[[DatasetTransaction], Message]) -> bytes:
        return await mutate(self._store, request.dataset, IdempotencyKey.for_message(request), work)


def _message_with_bullet(transaction: DatasetTransaction, change: PendingChange) -> review_pb2.PendingChange:
    delta = change.proposal.delta
    stored = transaction.bullets_with_id(delta.bullet_id) if delta.bullet_id and delta.type != "ADD" else []
    return convert.pending_message(change, stored[0].bullet if stored else None)


def _revocation_response(revocation: Revocation) -> service_pb.RevokeTrajectoryResponse:
    return service_pb.RevokeTrajectoryResponse(
        revision=revocation.revision,
        changes=[convert.change_message(change) for change in revocation.changes],
        removed=revocation.removed,
        reverted=revocation.reverted,
        votes_removed=revocation.votes_removed,
        entangled=revocation.entangled,
    )
