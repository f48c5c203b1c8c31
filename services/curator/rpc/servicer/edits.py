"""Change playbooks; each request is done once, by its request_id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from chassis.server.messages import decode_enum
from hansei.playbook.v1 import playbook_service_pb2 as service_pb
from hansei.playbook.v1 import review_pb2
from libs.storage.idempotency import IdempotencyKey, find_scope
from libs.storage.page_tokens import decode_page_token, encode_page_token
from services.curator.domain.log import RevisionKind, join_by_id
from services.curator.domain.merge import find_new_texts
from services.curator.domain.review import PendingChange, PendingState
from services.curator.rpc.convert import playbook as convert
from services.curator.rpc.servicer.message_size import MessageSize, count_omitted
from services.curator.rpc.servicer.mutation import build_origin, encode_message, mutate
from services.curator.usecases.commit import EditBatch, commit
from services.curator.usecases.embed_new_texts import EmbedTexts
from services.curator.usecases.merge_playbooks import MergeConflict, merge_playbooks
from services.curator.usecases.ports import DatasetTransaction, PlaybookStore
from services.curator.usecases.restore import restore
from services.curator.usecases.review import ReviewDecision, decide
from services.curator.usecases.revoke import Revocation, revoke
from services.curator.usecases.set_policy import set_policy

DEFAULT_PAGE = 100


class PlaybookEdits:
    """The changing methods of PlaybookService, files excepted."""

    def __init__(self, store: PlaybookStore, embed_new_texts: EmbedTexts, size: MessageSize) -> None:
        self._store = store
        self._size = size
        self._embed_new_texts = embed_new_texts

    async def ApplyDeltas(self, request: service_pb.ApplyDeltasRequest, context: Any) -> bytes:
        """Apply deltas and votes as one revision."""
        convert.require_pin_reasons(request)
        batch = EditBatch(
            origin=build_origin(RevisionKind.APPLY, request, request.source_trajectory),
            proposals=[
                convert.decode_proposal(delta, request.source_trajectory, f"deltas[{index}]")
                for index, delta in enumerate(request.deltas)
            ],
            votes=[convert.decode_vote(vote) for vote in request.votes],
            base_revision=request.base_revision if request.HasField("base_revision") else None,
            hold_for_review=request.hold_for_review,
        )

        def commit_deltas(transaction: DatasetTransaction) -> service_pb.ApplyDeltasResponse:
            transaction.store_embeddings(embeddings)
            done = commit(transaction, batch)
            return service_pb.ApplyDeltasResponse(
                revision=done.revision,
                operations=[convert.encode_operation(operation) for operation in done.operations],
                votes=[convert.encode_vote(outcome) for outcome in done.votes],
                conflicts=convert.encode_conflicts(done.operations),
                pending=[convert.encode_pending_change(change) for change in done.pending],
                bullets_after=done.bullets_after,
            )

        embeddings = await self._embed_new_texts(find_new_texts(batch.proposals))
        return await self._mutate(request, commit_deltas)

    async def RestoreRevision(self, request: service_pb.RestoreRevisionRequest, context: Any) -> bytes:
        """Make an earlier revision current again."""
        await self._store.require(request.dataset)

        def commit_restoration(transaction: DatasetTransaction) -> service_pb.RestoreRevisionResponse:
            origin = build_origin(RevisionKind.RESTORE, request)
            changes = join_by_id(restore(transaction, request.revision, origin))
            page = self._size.fill_page(map(convert.encode_change, changes))
            return service_pb.RestoreRevisionResponse(
                revision=transaction.revision, changes=page, omitted_changes=count_omitted(changes, page)
            )

        return await self._mutate(request, commit_restoration)

    async def RevokeTrajectory(self, request: service_pb.RevokeTrajectoryRequest, context: Any) -> bytes:
        """Undo the effects of a trajectory; a dry run is not logged."""
        await self._store.require(request.dataset)
        origin = build_origin(RevisionKind.REVOKE, request)
        if request.dry_run:
            revocation = await self._store.write(
                request.dataset, lambda transaction: revoke(transaction, request.trajectory_id, origin, dry_run=True)
            )
            return encode_message(self._build_revocation_response(revocation))

        def commit_revocation(transaction: DatasetTransaction) -> service_pb.RevokeTrajectoryResponse:
            return self._build_revocation_response(revoke(transaction, request.trajectory_id, origin, dry_run=False))

        return await self._mutate(request, commit_revocation)

    async def DeleteDataset(self, request: service_pb.DeleteDatasetRequest, context: Any) -> bytes:
        """Delete a dataset, and erase its contents from the database."""

        def delete_dataset(transaction: DatasetTransaction) -> service_pb.DeleteDatasetResponse:
            tombstone = transaction.delete_contents(build_origin(RevisionKind.DELETE, request))
            return service_pb.DeleteDatasetResponse(
                revision=tombstone.number,
                deleted_at=convert.encode_timestamp(tombstone.stamp.at),
                bullets=tombstone.bullets_before,
            )

        response = await self._mutate(request, delete_dataset)
        # After the commit: a repeated request completes an interrupted deletion.
        await self._store.erase_deleted_rows()
        return response

    async def MergePlaybooks(self, request: service_pb.MergePlaybooksRequest, context: Any) -> bytes:
        """Merge several playbooks into one."""
        threshold = request.duplicate_threshold if request.HasField("duplicate_threshold") else None
        names = [name for name in request.from_datasets if name != request.dataset]
        await self._store.require(*names)

        def merge(transaction: DatasetTransaction) -> service_pb.MergePlaybooksResponse:
            merged = merge_playbooks(transaction, names, threshold, build_origin(RevisionKind.MERGE, request))
            conflicts = self._size.fill_page(map(_encode_merge_conflict, merged.conflicts))
            return service_pb.MergePlaybooksResponse(
                revision=merged.revision,
                added=merged.added,
                merged=merged.merged,
                conflicts=conflicts,
                omitted_conflicts=count_omitted(merged.conflicts, conflicts),
            )

        return await self._mutate(request, merge)

    async def GetPolicy(self, request: service_pb.GetPolicyRequest, context: Any) -> service_pb.GetPolicyResponse:
        """Return the policy of a dataset."""
        await self._store.require(request.dataset)
        policy = await self._store.load_policy(request.dataset)
        return service_pb.GetPolicyResponse(policy=convert.encode_policy(policy))

    async def SetPolicy(self, request: service_pb.SetPolicyRequest, context: Any) -> bytes:
        """Replace the policy of a dataset."""
        policy = convert.decode_policy(request.policy)

        def store_policy(transaction: DatasetTransaction) -> service_pb.SetPolicyResponse:
            return service_pb.SetPolicyResponse(policy=convert.encode_policy(set_policy(transaction, policy)))

        return await self._mutate(request, store_policy)

    async def ListPendingChanges(
        self, request: service_pb.ListPendingChangesRequest, context: Any
    ) -> service_pb.ListPendingChangesResponse:
        """Return a page of pending changes, oldest first, each with the present bullet that it edits."""
        await self._store.require(request.dataset)
        names = [decode_enum(review_pb2.PendingState.DESCRIPTOR, state) for state in request.states]
        states = [PendingState(name) for name in names if name] or [PendingState.WAITING]
        (after,) = decode_page_token(request, str) or ("",)
        size = request.page_size or DEFAULT_PAGE
        changes = await self._store.list_pending_changes(request.dataset, states, after, size + 1)
        snapshot = await self._store.load(request.dataset)
        present = {stored.bullet.id: stored.bullet for stored in reversed(snapshot.list_bullets())}
        messages = (
            convert.encode_pending_change(change, present.get(change.proposal.delta.bullet_id or ""))
            if change.proposal.delta.type != "ADD"
            else convert.encode_pending_change(change)
            for change in changes
        )
        page = self._size.fill_page(messages, size)
        more = len(changes) > len(page)
        return service_pb.ListPendingChangesResponse(
            changes=page, next_page_token=encode_page_token(request, page[-1].id) if more else ""
        )

    async def DecidePendingChanges(self, request: service_pb.DecidePendingChangesRequest, context: Any) -> bytes:
        """Approve or reject pending changes."""
        is_approved = request.decision == service_pb.DECISION_APPROVE
        decision = ReviewDecision.APPROVE if is_approved else ReviewDecision.REJECT

        def apply_decision(transaction: DatasetTransaction) -> service_pb.DecidePendingChangesResponse:
            decided = decide(transaction, request.ids, decision, build_origin(RevisionKind.REVIEW, request))
            return service_pb.DecidePendingChangesResponse(
                revision=decided.revision,
                changes=[_build_message_with_bullet(transaction, change) for change in decided.changes],
            )

        return await self._mutate(request, apply_decision)

    async def _mutate(self, request: Any, work: Callable[[DatasetTransaction], Message]) -> bytes:
        key = IdempotencyKey.for_message(request, scope=find_scope(request.dataset))
        return await mutate(self._store, request.dataset, key, self._size, work)

    def _build_revocation_response(self, revocation: Revocation) -> service_pb.RevokeTrajectoryResponse:
        page = self._size.fill_page(map(convert.encode_change, revocation.changes))
        return service_pb.RevokeTrajectoryResponse(
            revision=revocation.revision,
            changes=page,
            removed=revocation.removed,
            reverted=revocation.reverted,
            votes_removed=revocation.votes_removed,
            entangled=revocation.entangled,
            omitted_changes=count_omitted(revocation.changes, page),
        )


def _build_message_with_bullet(transaction: DatasetTransaction, change: PendingChange) -> review_pb2.PendingChange:
    delta = change.proposal.delta
    stored = transaction.find_bullets_with_ids([delta.bullet_id]) if delta.bullet_id and delta.type != "ADD" else []
    return convert.encode_pending_change(change, stored[0].bullet if stored else None)


def _encode_merge_conflict(conflict: MergeConflict) -> service_pb.MergeConflict:
    return service_pb.MergeConflict(
        existing_bullet=convert.encode_bullet(conflict.existing_bullet),
        incoming_bullet=convert.encode_bullet(conflict.incoming_bullet),
        from_dataset=conflict.from_dataset,
        new_id=conflict.new_id,
        reason=conflict.reason,
    )
