"""Convert between the messages of the playbook contract and the domain."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import cast

from google.protobuf.timestamp_pb2 import Timestamp

from chassis.server.messages import decode, decode_enum, encode, encode_enum
from hansei.playbook.v1 import playbook_pb2 as pb
from hansei.playbook.v1 import playbook_service_pb2 as service_pb
from hansei.playbook.v1 import review_pb2
from libs.embedding.model import Float32s
from services.curator.domain.curation import (
    DeltaContextItem,
    DeltaType,
    Operation,
    Proposal,
    Vote,
    VoteOutcome,
    VoteTag,
)
from services.curator.domain.errors import PinReasonMissing
from services.curator.domain.log import Revision, SlotChange, StoredBullet
from services.curator.domain.playbook import Bullet, BulletTarget, Source, validate_target
from services.curator.domain.policy import DEFAULT_MAX_BULLETS, DEFAULT_PENDING_LIFETIME, Policy, ReviewMode, Trust
from services.curator.domain.review import PendingChange
from services.curator.domain.snapshot import Snapshot
from services.curator.usecases.ports import DatasetHead


def encode_timestamp(at: datetime | None) -> Timestamp | None:
    """Return the message of a time; a naive one (C-20) becomes UTC."""
    if at is None:
        return None
    message = Timestamp()
    message.FromDatetime(at if at.tzinfo is None else at.astimezone(UTC))
    return message


def encode_bullet(bullet: Bullet) -> pb.Bullet:
    """Return the message of a bullet, without revisions and times."""
    return pb.Bullet(
        id=bullet.id,
        section=bullet.section,
        content=bullet.content,
        searchable_text=bullet.searchable_text,
        keywords=bullet.keywords,
        helpful=bullet.helpful,
        harmful=bullet.harmful,
        source_trajectory=bullet.source_trajectory,
        confidence_score=bullet.confidence_score,
        sources=[encode_source(source) for source in bullet.sources],
        state=pb.BULLET_STATE_RETIRED if bullet.retired else pb.BULLET_STATE_ACTIVE,
        target=encode_target(bullet.target),
    )


def encode_target(target: BulletTarget | None) -> pb.Target | None:
    """Return the message of a target."""
    if target is None:
        return None
    mode = pb.TargetMode.Value(f"TARGET_MODE_{target.mode.upper()}")
    return pb.Target(expression=target.expression, mode=mode, pinned=target.pinned)


def decode_target(message: pb.Target, field: str) -> BulletTarget:
    """Return the target of a message; an empty expression stands for none. Raises InvalidTarget."""
    if message.expression:
        validate_target(message.expression, f"{field}.expression")
    fields = decode(message)
    return BulletTarget(**fields | {"mode": fields["mode"] or "shadow"})


def require_pin_reasons(request: service_pb.ApplyDeltasRequest) -> None:
    """Raise PinReasonMissing if a delta pins a mode above SHADOW, and neither it nor the request has a reason."""
    for index, delta in enumerate(request.deltas):
        is_pinned = delta.target.pinned and delta.target.mode > pb.TARGET_MODE_SHADOW
        if is_pinned and not delta.reasoning.strip() and not request.reason.strip():
            raise PinReasonMissing(f"deltas[{index}].target.pinned")


def encode_stored_bullet(stored: StoredBullet) -> pb.Bullet:
    """Return the message of a stored bullet."""
    message = encode_bullet(stored.bullet)
    message.created_revision = stored.created.revision
    message.updated_revision = stored.updated.revision
    message.created_at.FromDatetime(stored.created.at)
    message.updated_at.FromDatetime(stored.updated.at)
    return message


def encode_source(source: Source) -> pb.Source:
    """Encode a source as a protobuf message."""
    return pb.Source(trajectory_id=source.trajectory, steps=source.steps)


def encode_embedding(model_id: str, vector: Float32s | None) -> pb.Embedding:
    """Return the message of a vector, shape (d,); without values for None."""
    if vector is None:
        return pb.Embedding()
    return pb.Embedding(model_id=model_id, dimension=len(vector), values=vector.astype("<f4", copy=False).tobytes())


def encode_playbook_head(snapshot: Snapshot) -> pb.Playbook:
    """Return the message of a playbook without its bullets."""
    return pb.Playbook(
        dataset=snapshot.dataset,
        revision=snapshot.revision,
        created_at=encode_timestamp(snapshot.created_at),
        updated_at=encode_timestamp(snapshot.updated_at),
    )


def decode_proposal(message: pb.Delta, trajectory: str, field: str = "delta") -> Proposal:
    """Return the proposal of a delta; one without sources gets the trajectory of its request. Raises InvalidTarget."""
    delta = DeltaContextItem(
        type=cast("DeltaType", pb.DeltaType.Name(message.type).removeprefix("DELTA_TYPE_")),
        section=message.section,
        bullet_id=message.bullet_id if message.HasField("bullet_id") else None,
        content=message.content,
        reasoning=message.reasoning,
    )
    sources = tuple(Source(trajectory=source.trajectory_id, steps=tuple(source.steps)) for source in message.sources)
    if not sources and trajectory:
        sources = (Source(trajectory=trajectory),)
    target = decode_target(message.target, f"{field}.target") if message.HasField("target") else None
    return Proposal(delta, sources, target=target)


def encode_delta(proposal: Proposal) -> pb.Delta:
    """Return the message of a delta."""
    delta = proposal.delta
    return pb.Delta(
        type=pb.DeltaType.Value(f"DELTA_TYPE_{delta.type}"),
        section=delta.section,
        bullet_id=delta.bullet_id,
        content=delta.content,
        reasoning=delta.reasoning,
        sources=[encode_source(source) for source in proposal.sources],
        target=encode_target(proposal.target),
    )


def decode_tag(tag: int) -> VoteTag:
    """Return the tag of a vote."""
    return cast("VoteTag", decode_enum(pb.VoteTag.DESCRIPTOR, tag))


def decode_vote(message: pb.Vote) -> Vote:
    """Return the vote of a message."""
    return Vote(message.bullet_id, decode_tag(message.tag), message.trajectory_id, message.round, message.reason)


def encode_vote(outcome: VoteOutcome) -> pb.VoteOutcome:
    """Return the message of the outcome of a vote."""
    vote = outcome.vote
    return pb.VoteOutcome(
        vote=pb.Vote(
            bullet_id=vote.bullet_id,
            tag=pb.VoteTag.Value(f"VOTE_TAG_{vote.tag.upper()}"),
            trajectory_id=vote.trajectory,
            round=vote.round,
            reason=vote.reason,
        ),
        applied=outcome.applied,
        skipped_reason=outcome.skipped_reason,
    )


def encode_operation(operation: Operation) -> pb.Operation:
    """Return the message of the outcome of a delta."""
    return pb.Operation(
        delta=encode_delta(operation.proposal),
        applied=operation.applied,
        bullet_id=operation.bullet_id,
        skipped_reason=operation.skipped_reason,
    )


def encode_conflicts(operations: Sequence[Operation]) -> list[pb.Conflict]:
    """Return the messages of the conflicts of deltas."""
    return [
        pb.Conflict(
            delta=encode_delta(operation.proposal),
            base_revision=operation.conflict.base_revision,
            current_bullet=None if operation.conflict.present is None else encode_bullet(operation.conflict.present),
            reason=operation.conflict.explanation,
        )
        for operation in operations
        if operation.conflict
    ]


def encode_change(change: SlotChange) -> pb.BulletChange:
    """Return the message of the change of a bullet."""
    return pb.BulletChange(
        bullet_id=change.bullet_id,
        before=None if change.before is None else encode_stored_bullet(change.before),
        after=None if change.after is None else encode_stored_bullet(change.after),
        position=change.position,
    )


def encode_revision(revision: Revision) -> pb.Revision:
    """Return the message of a revision."""
    origin = revision.origin
    return pb.Revision(
        dataset=revision.dataset,
        revision=revision.number,
        committed_at=encode_timestamp(revision.stamp.at),
        kind=pb.RevisionKind.Value(f"REVISION_KIND_{origin.kind.name}"),
        author=origin.author,
        reason=origin.reason,
        request_id=origin.request_id,
        source_trajectory=origin.source_trajectory,
        model=origin.model,
        signal=origin.signal,
        summary=revision.summary,
        bullets_before=revision.bullets_before,
        bullets_after=revision.bullets_after,
        operations=[encode_operation(operation) for operation in revision.operations],
        votes=[encode_vote(vote) for vote in revision.votes],
        changes=[encode_change(change) for change in revision.changes],
    )


def encode_pending_change(change: PendingChange, present: Bullet | None = None) -> review_pb2.PendingChange:
    """Return the message of a pending change; `present` is the present bullet that it edits."""
    return encode(
        change,
        review_pb2.PendingChange,
        delta=encode_delta(change.proposal),
        created_at=change.proposed,
        expires_at=change.expires,
        current_bullet=None if present is None else encode_bullet(present),
    )


def decode_policy(message: review_pb2.DatasetPolicy) -> Policy:
    """Return the policy of a message, defaults filled in."""
    tiers = review_pb2.TrustTier.DESCRIPTOR
    lifetime = DEFAULT_PENDING_LIFETIME
    if message.HasField("pending_lifetime"):
        lifetime = message.pending_lifetime.ToTimedelta()
    return Policy(
        review_mode=ReviewMode(decode_enum(review_pb2.ReviewMode.DESCRIPTOR, message.review_mode) or ReviewMode.AUTO),
        max_bullets=message.max_bullets or DEFAULT_MAX_BULLETS,
        max_tokens=message.max_tokens,
        duplicate_threshold=message.duplicate_threshold if message.HasField("duplicate_threshold") else None,
        retire_after_harmful=message.retire_after_harmful,
        trust={author: Trust(decode_enum(tiers, tier) or Trust.MEDIUM) for author, tier in message.trust.items()},
        pending_lifetime=lifetime,
    )


def encode_policy(policy: Policy) -> review_pb2.DatasetPolicy:
    """Return the message of a policy."""
    tiers = review_pb2.TrustTier.DESCRIPTOR
    trust = {author: encode_enum(tiers, tier) for author, tier in sorted(policy.trust.items())}
    message = encode(policy, review_pb2.DatasetPolicy, trust=trust, pending_lifetime=None)
    message.pending_lifetime.FromTimedelta(policy.pending_lifetime)
    return message


def encode_head(head: DatasetHead) -> service_pb.GetDatasetResponse:
    """Return the message of the newest state of a dataset."""
    return encode(
        head,
        service_pb.GetDatasetResponse,
        pending_changes=head.dataset.pending_changes,
        policy=encode_policy(head.policy),
    )
