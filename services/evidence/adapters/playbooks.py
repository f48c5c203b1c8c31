"""The playbooks of the curator over gRPC."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from datetime import UTC
from typing import Any

from chassis.pages import iterate_pages
from hansei.playbook.v1 import playbook_pb2, playbook_service_pb2, playbook_service_pb2_grpc, review_pb2
from services.evidence.adapters.search import compute_text_version
from services.evidence.domain.guard_trials import ModeDecision
from services.evidence.usecases.erase_deleted import DatasetDeletion
from services.evidence.usecases.ports import AddedBullet

PAGE_SIZE = 1000
AUTHOR = "evidence"


class GrpcPlaybooks:
    """Implements `DatasetDeletions`, `PlaybookEditor` and `ModeEditor`. `channel` is connected to the curator."""

    def __init__(self, channel: Any) -> None:
        self._playbooks: Any = playbook_service_pb2_grpc.PlaybookServiceStub(channel)

    async def list_deletions(self) -> dict[str, DatasetDeletion]:
        """Return the last deletions of datasets, by name. Raises `HanseiError`."""
        request = playbook_service_pb2.ListDatasetsRequest(page_size=PAGE_SIZE, deleted=True)
        return {
            dataset.name: DatasetDeletion(
                dataset.deleted_at.ToDatetime(tzinfo=UTC), dataset.revision != dataset.deleted_revision
            )
            async for page in iterate_pages(self._playbooks.ListDatasets, request)
            for dataset in page.datasets
        }

    async def remove(self, request_id: str, dataset: str, bullet_id: str, text_version: str, reason: str) -> int:
        """Remove a bullet if it still has this text; return the revision, 0 without a removal. Raises `HanseiError`.

        A repeat returns the revision in which the first request removed the bullet. If the policy requires a review,
        the removal is a pending change, and there is no revision.
        """
        request = playbook_service_pb2.ListBulletsRequest(dataset=dataset, ids=[bullet_id])
        found = (await self._playbooks.ListBullets(request)).bullets
        if not found:
            return await self._find_revision(dataset, bullet_id, request_id)
        if compute_text_version(found[0].content) != text_version:
            return 0
        delta = playbook_pb2.Delta(
            type=playbook_pb2.DELTA_TYPE_DELETE, section=found[0].section, bullet_id=bullet_id, reasoning=reason
        )
        response = await self._apply(request_id, dataset, delta, AUTHOR, reason)
        return 0 if response.pending else response.revision

    async def withdraw_removal(
        self, request_id: str, dataset: str, bullet_id: str, removal_reason: str, author: str, reason: str
    ) -> int:
        """Reject a removal that waits for a review; return the revision of one that was approved, else 0.

        Raises `HanseiError`, also when somebody approves the removal meanwhile: a repeat then returns its revision.
        """
        states = [review_pb2.PENDING_STATE_WAITING, review_pb2.PENDING_STATE_APPROVED]
        request = playbook_service_pb2.ListPendingChangesRequest(dataset=dataset, states=states)
        async for page in iterate_pages(self._playbooks.ListPendingChanges, request):
            for change in page.changes:
                removed = change.delta.bullet_id, change.delta.reasoning, change.delta.type
                if removed != (bullet_id, removal_reason, playbook_pb2.DELTA_TYPE_DELETE) or change.author != AUTHOR:
                    continue
                if change.state == review_pb2.PENDING_STATE_APPROVED:
                    return await self._find_removal(dataset, bullet_id)
                await self._playbooks.DecidePendingChanges(
                    playbook_service_pb2.DecidePendingChangesRequest(
                        request_id=request_id,
                        dataset=dataset,
                        ids=[change.id],
                        decision=playbook_service_pb2.DECISION_REJECT,
                        author=author,
                        reason=reason,
                    )
                )
                return 0
        return 0

    async def set_mode(self, request_id: str, dataset: str, decision: ModeDecision) -> int:
        """Set the mode of a guard; return the revision, 0 if it is pinned, edited or removed. Raises `HanseiError`.

        Under a policy of review the change waits for a person; the revision is the present one then.
        """
        request = playbook_service_pb2.ListBulletsRequest(dataset=dataset, ids=[decision.bullet_id])
        found = (await self._playbooks.ListBullets(request)).bullets
        if not found or found[0].target.pinned or found[0].target.expression != decision.target:
            return 0
        mode = playbook_pb2.TargetMode.Value(f"TARGET_MODE_{decision.after.name}")
        # Nobody may pin the mode between the two calls: a later revision of the bullet is a conflict.
        revision = found[0].updated_revision
        if found[0].target.mode == mode:  # an earlier try has set it
            return int(revision)
        delta = playbook_pb2.Delta(
            type=playbook_pb2.DELTA_TYPE_UPDATE,
            section=found[0].section,
            bullet_id=decision.bullet_id,
            target=playbook_pb2.Target(expression=decision.target, mode=mode),
            reasoning=decision.reason,
        )
        request_id = str(uuid.uuid5(uuid.UUID(request_id), str(revision)))
        response = await self._apply(request_id, dataset, delta, decision.author, decision.reason, revision)
        return 0 if response.conflicts else response.revision

    async def add_again(self, request_id: str, dataset: str, bullet_id: str, author: str, reason: str) -> AddedBullet:
        """Add the last text of a bullet that was removed; nothing is added yet if it waits for a review.

        Raises `HanseiError`.
        """
        removed = await self._find_last_text(dataset, bullet_id)
        delta = playbook_pb2.Delta(
            type=playbook_pb2.DELTA_TYPE_ADD,
            section=removed.section,
            content=removed.content,
            sources=removed.sources,
            reasoning=reason,
        )
        response = await self._apply(request_id, dataset, delta, author, reason)
        bullet_id = "".join(operation.bullet_id for operation in response.operations)
        return AddedBullet(bullet_id, 0 if response.pending else response.revision)

    async def _find_revision(self, dataset: str, bullet_id: str, request_id: str) -> int:
        """Return the revision in which a request changed a bullet, 0 for none."""
        async for revision in self._list_revisions(dataset, bullet_id):
            if revision.request_id == request_id:
                return revision.revision
        return 0

    async def _find_removal(self, dataset: str, bullet_id: str) -> int:
        """Return the last revision that removed a bullet, 0 for none."""
        found = 0
        async for revision in self._list_revisions(dataset, bullet_id):
            if any(not change.HasField("after") for change in revision.changes):
                found = revision.revision
        return found

    async def _find_last_text(self, dataset: str, bullet_id: str) -> playbook_pb2.Bullet:
        last = playbook_pb2.Bullet()
        async for revision in self._list_revisions(dataset, bullet_id):
            for change in revision.changes:
                last = change.after if change.HasField("after") else change.before
        return last

    async def _list_revisions(self, dataset: str, bullet_id: str) -> AsyncIterator[playbook_pb2.Revision]:
        """Yield the revisions that changed a bullet, the oldest first."""
        request = playbook_service_pb2.GetBulletHistoryRequest(dataset=dataset, bullet_id=bullet_id)
        async for page in iterate_pages(self._playbooks.GetBulletHistory, request):
            for revision in page.revisions:
                yield revision

    async def _apply(
        self,
        request_id: str,
        dataset: str,
        delta: playbook_pb2.Delta,
        author: str,
        reason: str,
        base_revision: int | None = None,
    ) -> playbook_service_pb2.ApplyDeltasResponse:
        response: playbook_service_pb2.ApplyDeltasResponse = await self._playbooks.ApplyDeltas(
            playbook_service_pb2.ApplyDeltasRequest(
                request_id=request_id,
                dataset=dataset,
                deltas=[delta],
                author=author,
                reason=reason,
                base_revision=base_revision,
            )
        )
        return response
