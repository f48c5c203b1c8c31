"""Which fields of a request name something that belongs to somebody: found by descriptor, at any depth.

Datasets are the fields that carry the rule `dataset_name`. What else has an owner stands in one table here; a contract
test walks every request and fails when a field that looks like a name is in neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

from buf.validate import validate_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from hansei.playbook.v1 import rules_pb2


class Kind(Enum):
    """What a field means to whoever owns it."""

    DATASET = "dataset"
    """A name that begins with its tenant's prefix. Unset stands for a default, which is no tenant's."""
    COLLECTION = "collection"
    """The same, of document collections."""
    EXECUTION = "execution"
    """The same, of plans and of rounds on the leaderboard."""
    PLAN = "plan"
    """The id of a plan, and of its execution if there is one: the same, but unset the planner gives it one."""
    SOURCE = "dataset or collection"
    """Where a step of a plan looks: the same, but unset it is chosen among those that the plan's id lets it see."""
    PREFIX = "prefix"
    """What the names of a list, or of what a plan may see, begin with; unset takes the caller's own."""
    JOB = "job"
    """An id that a service gave; who created it is written down."""
    AUTHOR = "author"
    """Who makes a change; unset takes the caller's name."""


GIVEN = frozenset({Kind.JOB})
"""Kinds whose names say nothing of their owner."""
CHOSEN_WITHIN_A_PREFIX = frozenset({Kind.PLAN, Kind.SOURCE})
"""Kinds that may be left out: what is taken then begins with a prefix that is the caller's own."""

_KINDS: Mapping[str, Kind] = {
    "hansei.planner.v1.Plan.plan_id": Kind.PLAN,
    "hansei.planner.v1.PlanStep.collection": Kind.SOURCE,
    "hansei.planner.v1.CreatePlanRequest.prefix": Kind.PREFIX,
    "hansei.planner.v1.RefinePlanRequest.prefix": Kind.PREFIX,
    "hansei.planner.v1.RunPlanRequest.prefix": Kind.PREFIX,
    "hansei.planner.v1.ExecutePlanRequest.prefix": Kind.PREFIX,
    "hansei.planner.v1.ListExecutionsRequest.prefix": Kind.PREFIX,
    "hansei.planner.v1.DrawPlanRequest.execution_id": Kind.EXECUTION,
    "hansei.planner.v1.ResumePlanRequest.execution_id": Kind.EXECUTION,
    "hansei.planner.v1.WatchExecutionRequest.execution_id": Kind.EXECUTION,
    "hansei.planner.v1.GetExecutionRequest.execution_id": Kind.EXECUTION,
    "hansei.planner.v1.CancelExecutionRequest.execution_id": Kind.EXECUTION,
    "hansei.planner.v1.AddInformationRequest.execution_id": Kind.EXECUTION,
    "hansei.planner.v1.AuditExecutionRequest.execution_id": Kind.EXECUTION,
    "hansei.planner.v1.SubmitFeedbackRequest.execution_id": Kind.EXECUTION,
    "hansei.reflector.v1.ReflectionResult.trajectory_dataset": Kind.DATASET,
    "hansei.playbook.v1.ListDatasetsRequest.prefix": Kind.PREFIX,
    "hansei.search.v1.ListCollectionsRequest.prefix": Kind.PREFIX,
    "hansei.search.v1.CreateCollectionRequest.name": Kind.COLLECTION,
    "hansei.search.v1.GetCollectionRequest.name": Kind.COLLECTION,
    "hansei.search.v1.DeleteCollectionRequest.name": Kind.COLLECTION,
    "hansei.search.v1.PutDocumentsRequest.collection": Kind.COLLECTION,
    "hansei.search.v1.GetDocumentRequest.collection": Kind.COLLECTION,
    "hansei.search.v1.ListDocumentsRequest.collection": Kind.COLLECTION,
    "hansei.search.v1.DeleteDocumentsRequest.collection": Kind.COLLECTION,
    "hansei.search.v1.LoadHead.collection": Kind.COLLECTION,
    "hansei.search.v1.SearchCollectionRequest.collection": Kind.COLLECTION,
    "hansei.gateway.v1.RunRoundsRequest.execution_id": Kind.EXECUTION,
    "hansei.validator.v1.RoundKey.execution_id": Kind.EXECUTION,
    "hansei.validator.v1.GetRankingRequest.execution_id": Kind.EXECUTION,
    "hansei.validator.v1.GetBestSubmissionRequest.execution_id": Kind.EXECUTION,
    "hansei.validator.v1.ListLeaderboardEntriesRequest.execution_id": Kind.EXECUTION,
    "hansei.gateway.v1.GetJobRequest.job_id": Kind.JOB,
    "hansei.gateway.v1.WatchJobRequest.job_id": Kind.JOB,
    "hansei.gateway.v1.CancelJobRequest.job_id": Kind.JOB,
    "hansei.gateway.v1.ListDeadLettersRequest.job_id": Kind.JOB,
    "hansei.gateway.v1.RetryDeadLettersRequest.job_id": Kind.JOB,
    "hansei.playbook.v1.ApplyDeltasRequest.author": Kind.AUTHOR,
    "hansei.playbook.v1.RestoreRevisionRequest.author": Kind.AUTHOR,
    "hansei.playbook.v1.RevokeTrajectoryRequest.author": Kind.AUTHOR,
    "hansei.playbook.v1.DecidePendingChangesRequest.author": Kind.AUTHOR,
    "hansei.playbook.v1.MergePlaybooksRequest.author": Kind.AUTHOR,
    "hansei.playbook.v1.ImportHead.author": Kind.AUTHOR,
    "hansei.curator.v1.CurateRequest.author": Kind.AUTHOR,
}


@dataclass(frozen=True, slots=True)
class Mention:
    """A value of a field that names something: in which message, so that an unset one can be filled in."""

    kind: Kind
    message: Message
    field: str
    value: str


def mentions(message: Message) -> Iterator[Mention]:
    """Everything a request names, unset fields included where their message is there and no other is in their place."""
    for field, kind in _fields(message.DESCRIPTOR):
        for value in _values(message, field):
            if kind is not None:
                yield Mention(kind, message, field.name, value)
            else:
                yield from mentions(value)


def kind_of(field: FieldDescriptor) -> Kind | None:
    """What a field names."""
    rules = field.GetOptions().Extensions[validate_pb2.field]
    texts = rules.repeated.items.string if field.is_repeated else rules.string
    return Kind.DATASET if texts.Extensions[rules_pb2.dataset_name] else _KINDS.get(field.full_name)


def value_at(message: Message, path: str) -> str:
    """The text at a dotted path; empty where something on the way is not set."""
    value: Any = message
    for name in path.split("."):
        value = getattr(value, name)
    return str(value)


def _values(message: Message, field: FieldDescriptor) -> Iterator[Any]:
    chosen = message.WhichOneof(field.containing_oneof.name) if field.containing_oneof else None
    if chosen is not None and chosen != field.name:
        return
    value = getattr(message, field.name)
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        yield from value.values()
    elif field.is_repeated:
        yield from value
    elif entry is None or message.HasField(field.name):
        yield value


@cache
def _fields(descriptor: Descriptor) -> tuple[tuple[FieldDescriptor, Kind | None], ...]:
    """The fields that name something, and those below which something is named."""
    found = ((field, kind_of(field)) for field in descriptor.fields)
    return tuple((field, kind) for field, kind in found if kind is not None or _may_name(field))


def _may_name(field: FieldDescriptor) -> bool:
    if field.message_type is None:
        return False
    seen: set[str] = set()
    pending = [_held(field)]
    while pending:
        below = pending.pop()
        if below is None or below.full_name in seen or not below.full_name.startswith("hansei."):
            continue
        seen.add(below.full_name)
        if any(kind_of(each) is not None for each in below.fields):
            return True
        pending += [_held(each) for each in below.fields]
    return False


def _held(field: FieldDescriptor) -> Descriptor | None:
    """The message that a field holds; of a map, that of its values."""
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        return entry.fields_by_name["value"].message_type
    return entry
