"""The fields of a request that name resources of a tenant: found by descriptor, at any depth.

Datasets are the fields with the rule `dataset_name`. All other owned resources stand in one table here; a contract
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


class ResourceKind(Enum):
    """The kind of resource that a field names."""

    DATASET = "dataset"
    """A name that begins with its tenant's prefix. Unset means a default dataset, which is no tenant's."""
    COLLECTION = "collection"
    """The same, of document collections."""
    EXECUTION = "execution"
    """The same, of plans and of rounds on the leaderboard."""
    PLAN = "plan"
    """The id of a plan, and of its execution if there is one: the same, but the planner assigns an unset one."""
    SOURCE = "dataset or collection"
    """The source of a step of a plan: the same, but an unset one is chosen among those within the plan's prefix."""
    PREFIX = "prefix"
    """The prefix of the names that a list returns or a plan may use; unset becomes the caller's own."""
    JOB = "job"
    """An id that a service assigned; its owner is stored."""
    AUTHOR = "author"
    """The author of a change; unset becomes the caller's name."""


ASSIGNED_BY_SERVICE = frozenset({ResourceKind.JOB})
"""Kinds whose names do not contain their owner."""
OPTIONAL_WITHIN_PREFIX = frozenset({ResourceKind.PLAN, ResourceKind.SOURCE})
"""Kinds that may be unset: the service then chooses a name within the caller's prefix."""

_KINDS: Mapping[str, ResourceKind] = {
    "hansei.planner.v1.Plan.plan_id": ResourceKind.PLAN,
    "hansei.planner.v1.PlanStep.collection": ResourceKind.SOURCE,
    "hansei.planner.v1.CreatePlanRequest.prefix": ResourceKind.PREFIX,
    "hansei.planner.v1.RefinePlanRequest.prefix": ResourceKind.PREFIX,
    "hansei.planner.v1.RunPlanRequest.prefix": ResourceKind.PREFIX,
    "hansei.planner.v1.ExecutePlanRequest.prefix": ResourceKind.PREFIX,
    "hansei.planner.v1.ListExecutionsRequest.prefix": ResourceKind.PREFIX,
    "hansei.planner.v1.DrawPlanRequest.execution_id": ResourceKind.EXECUTION,
    "hansei.planner.v1.ResumePlanRequest.execution_id": ResourceKind.EXECUTION,
    "hansei.planner.v1.WatchExecutionRequest.execution_id": ResourceKind.EXECUTION,
    "hansei.planner.v1.GetExecutionRequest.execution_id": ResourceKind.EXECUTION,
    "hansei.planner.v1.CancelExecutionRequest.execution_id": ResourceKind.EXECUTION,
    "hansei.planner.v1.AddInformationRequest.execution_id": ResourceKind.EXECUTION,
    "hansei.planner.v1.AuditExecutionRequest.execution_id": ResourceKind.EXECUTION,
    "hansei.planner.v1.SubmitFeedbackRequest.execution_id": ResourceKind.EXECUTION,
    "hansei.reflector.v1.ReflectionResult.trajectory_dataset": ResourceKind.DATASET,
    "hansei.playbook.v1.ListDatasetsRequest.prefix": ResourceKind.PREFIX,
    "hansei.search.v1.ListCollectionsRequest.prefix": ResourceKind.PREFIX,
    "hansei.search.v1.CreateCollectionRequest.name": ResourceKind.COLLECTION,
    "hansei.search.v1.GetCollectionRequest.name": ResourceKind.COLLECTION,
    "hansei.search.v1.DeleteCollectionRequest.name": ResourceKind.COLLECTION,
    "hansei.search.v1.PutDocumentsRequest.collection": ResourceKind.COLLECTION,
    "hansei.search.v1.GetDocumentRequest.collection": ResourceKind.COLLECTION,
    "hansei.search.v1.ListDocumentsRequest.collection": ResourceKind.COLLECTION,
    "hansei.search.v1.DeleteDocumentsRequest.collection": ResourceKind.COLLECTION,
    "hansei.search.v1.LoadHead.collection": ResourceKind.COLLECTION,
    "hansei.search.v1.SearchCollectionRequest.collection": ResourceKind.COLLECTION,
    "hansei.gateway.v1.RunRoundsRequest.execution_id": ResourceKind.EXECUTION,
    "hansei.validator.v1.RoundKey.execution_id": ResourceKind.EXECUTION,
    "hansei.validator.v1.GetRankingRequest.execution_id": ResourceKind.EXECUTION,
    "hansei.validator.v1.GetBestSubmissionRequest.execution_id": ResourceKind.EXECUTION,
    "hansei.validator.v1.ListLeaderboardEntriesRequest.execution_id": ResourceKind.EXECUTION,
    "hansei.gateway.v1.GetJobRequest.job_id": ResourceKind.JOB,
    "hansei.gateway.v1.WatchJobRequest.job_id": ResourceKind.JOB,
    "hansei.gateway.v1.CancelJobRequest.job_id": ResourceKind.JOB,
    "hansei.gateway.v1.ListDeadLettersRequest.job_id": ResourceKind.JOB,
    "hansei.gateway.v1.RetryDeadLettersRequest.job_id": ResourceKind.JOB,
    "hansei.playbook.v1.ApplyDeltasRequest.author": ResourceKind.AUTHOR,
    "hansei.playbook.v1.RestoreRevisionRequest.author": ResourceKind.AUTHOR,
    "hansei.playbook.v1.RevokeTrajectoryRequest.author": ResourceKind.AUTHOR,
    "hansei.playbook.v1.DecidePendingChangesRequest.author": ResourceKind.AUTHOR,
    "hansei.playbook.v1.MergePlaybooksRequest.author": ResourceKind.AUTHOR,
    "hansei.playbook.v1.ImportHead.author": ResourceKind.AUTHOR,
    "hansei.curator.v1.CurateRequest.author": ResourceKind.AUTHOR,
}


@dataclass(frozen=True, slots=True)
class NamedResource:
    """A field that names a resource, with its message, so that an unset field can be set."""

    kind: ResourceKind
    message: Message
    field: str
    value: str


def find_named_resources(message: Message) -> Iterator[NamedResource]:
    """Yield the resources that a request names, unset fields of set messages included, except in a decided oneof."""
    for field, kind in _fields(message.DESCRIPTOR):
        for value in _values(message, field):
            if kind is not None:
                yield NamedResource(kind, message, field.name, value)
            else:
                yield from find_named_resources(value)


def kind_of(field: FieldDescriptor) -> ResourceKind | None:
    """Return the kind of resource that a field names; None for other fields."""
    rules = field.GetOptions().Extensions[validate_pb2.field]
    texts = rules.repeated.items.string if field.is_repeated else rules.string
    return ResourceKind.DATASET if texts.Extensions[rules_pb2.dataset_name] else _KINDS.get(field.full_name)


def value_at(message: Message, path: str) -> str:
    """Return the text at a dotted path; empty if a message on the path is not set."""
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
def _fields(descriptor: Descriptor) -> tuple[tuple[FieldDescriptor, ResourceKind | None], ...]:
    """Return the fields that name a resource, and those whose messages have such fields."""
    kinds = ((field, kind_of(field)) for field in descriptor.fields)
    return tuple((field, kind) for field, kind in kinds if kind is not None or _contains_names(field))


def _contains_names(field: FieldDescriptor) -> bool:
    if field.message_type is None:
        return False
    seen: set[str] = set()
    pending = [_message_type(field)]
    while pending:
        below = pending.pop()
        if below is None or below.full_name in seen or not below.full_name.startswith("hansei."):
            continue
        seen.add(below.full_name)
        if any(kind_of(inner) is not None for inner in below.fields):
            return True
        pending += [_message_type(inner) for inner in below.fields]
    return False


def _message_type(field: FieldDescriptor) -> Descriptor | None:
    """Return the message type of a field; of a map, that of its values."""
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        return entry.fields_by_name["value"].message_type
    return entry
