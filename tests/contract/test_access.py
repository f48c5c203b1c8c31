"""No method is forgotten at the door: each has a scope, and each field that names something has an owner or reason."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor

from chassis.policy import load_policies
from gateway.access.domain.principal import ANY, SCOPES
from gateway.access.rpc.methods import guard_methods
from gateway.access.rpc.named_resources import OPTIONAL_WITHIN_PREFIX, ResourceKind, get_kind
from gateway.contract import load_contract
from tests.contract import contracts

METHODS = {contracts.path_of(method): method for method in contracts.methods()}
LOOKS_LIKE_A_NAME = re.compile(r"(^|_)(id|ids|name|names|dataset|datasets|collection|collections|prefix|author|key)$")

WITHIN = {
    "request_id": "says which request it is",
    "bullet_id": "within the dataset named beside it",
    "used_bullet_ids": "within the dataset of the trajectory",
    "cited_bullet_ids": "within the dataset of the trajectory",
    "served_bullet_id": "within the dataset named beside it",
    "cited_bullet_id": "within the dataset named beside it",
    "learned_bullet_id": "within the dataset named beside it",
    "learned_bullet_ids": "within the dataset of the trajectory",
    "serving_ids": "within the dataset of the trajectory",
    "trajectory_id": "within the dataset named beside it",
    "task_id": "the caller's own label",
    "session_id": "the caller's own label",
    "serving_id": "within the dataset named beside it",
    "tool_call_id": "within the trajectory",
    "step_id": "within the plan",
    "team_id": "within the execution named beside it",
    "webhook_id": "within the execution named beside it",
    "team_name": "for people",
    "metric_name": "for people",
    "first_id": "within the request",
    "second_id": "within the request",
    "focus_node_id": "within the dashboard that is sent",
    "valid_node_ids": "within the dashboard that is sent",
}
"""Names of fields that name nothing with an owner, wherever they stand."""

WITHOUT_OWNER = {
    "hansei.curator.v1.PrepareCurationRequest.bullet_ids": "bullets of the dataset named beside it",
    "hansei.playbook.v1.ListBulletsRequest.ids": "bullets of the dataset named beside it",
    "hansei.playbook.v1.DecidePendingChangesRequest.ids": "changes of the dataset named beside it",
    "hansei.playbook.v1.Bullet.id": "within the dataset",
    "hansei.evidence.v1.GuardTrajectory.id": "the caller's own label",
    "hansei.playbook.v1.WatchPlaybookRequest.embedding_model_id": "an embedding model, which nobody owns",
    "hansei.playbook.v1.PendingChange.id": "within the dataset",
    "hansei.reflector.v1.Trajectory.id": "within the dataset of the trajectory",
    "hansei.reflector.v1.Step.name": "for people",
    "hansei.reflector.v1.ToolCall.id": "within the trajectory",
    "hansei.reflector.v1.ToolCall.name": "a tool",
    "hansei.validator.v1.MetricConfig.name": "a metric",
    "hansei.validator.v1.EvaluateRequest.execution_id": "for logs only",
    "hansei.validator.v1.ReportKind.name": "kinds of reports are the operator's, for all tenants",
    "hansei.validator.v1.GetReportKindRequest.name": "kinds of reports are the operator's, for all tenants",
    "hansei.validator.v1.DeleteReportKindRequest.name": "kinds of reports are the operator's, for all tenants",
    "hansei.validator.v1.ContestantSubmission.id": "within the request",
    "hansei.gateway.v1.RevokeKeyRequest.key_id": "checked by the keys themselves",
    "hansei.search.v1.DeleteDocumentsRequest.ids": "documents of the collection named beside it",
    "hansei.search.v1.GetDocumentRequest.id": "a document of the collection named beside it",
    "hansei.search.v1.Document.id": "a document of the collection named beside it",
}


def texts_below(message: Descriptor, seen: set[str]) -> Iterator[FieldDescriptor]:
    """Every text that a message can hold, at any depth."""
    if message.full_name in seen or not message.full_name.startswith("hansei."):
        return
    seen.add(message.full_name)
    for field in message.fields:
        if field.message_type is not None:
            below = field.message_type
            value = below.fields_by_name["value"].message_type if below.GetOptions().map_entry else below
            if value is not None:
                yield from texts_below(value, seen)
        elif field.type == FieldDescriptor.TYPE_STRING:
            yield field


def text_fields(method: MethodDescriptor) -> list[FieldDescriptor]:
    return list(texts_below(method.input_type, set()))


@pytest.mark.parametrize("path", sorted(METHODS))
def test_every_method_has_a_scope(path: str) -> None:
    assert load_policies()["/" + path].scope in SCOPES | {ANY}, f"{path} has no scope in its policy"


def test_the_guard_has_every_served_method() -> None:
    assert {path.lstrip("/") for path in guard_methods(load_contract())} == set(METHODS)


@pytest.mark.parametrize("path", sorted(METHODS))
def test_every_field_that_looks_like_a_name_has_an_owner_or_a_reason(path: str) -> None:
    """A method that only the operator may call needs none."""
    if load_policies()["/" + path].shared:
        return
    loose = [
        field.full_name
        for field in text_fields(METHODS[path])
        if LOOKS_LIKE_A_NAME.search(field.name)
        and get_kind(field) is None
        and not WITHIN.get(field.name)
        and field.full_name not in WITHOUT_OWNER
    ]
    assert loose == [], "gateway/access/rpc/named_resources.py must list these, or this test say why not"


@pytest.mark.parametrize("path", sorted(METHODS))
def test_a_tenant_can_call_nothing_that_lists_without_naming_its_own(path: str) -> None:
    """A method with a page token lists things: they must be of one dataset, collection, execution or tenant."""
    policy, fields = load_policies()["/" + path], text_fields(METHODS[path])
    if not any(field.name == "page_token" for field in fields) or policy.shared:
        return
    kinds = {get_kind(field) for field in fields} - {None, ResourceKind.AUTHOR}
    public = {"hansei.validator.v1.ValidatorService/ListReportKinds"}  # the operator's, for all tenants
    checked_itself = {f"hansei.gateway.v1.AccessService/{name}" for name in ("ListKeys", "ListAuditRecords")}
    assert kinds or path in public | checked_itself


@pytest.mark.parametrize("path", sorted(METHODS))
def test_what_may_be_left_out_is_chosen_within_a_prefix_that_the_same_request_says(path: str) -> None:
    fields = text_fields(METHODS[path])
    if not OPTIONAL_WITHIN_PREFIX & {get_kind(field) for field in fields} or path.endswith("/DrawPlan"):
        return  # a drawing reads no data
    assert {ResourceKind.PREFIX, ResourceKind.EXECUTION} & {
        get_kind(field) for field in METHODS[path].input_type.fields
    }


@pytest.mark.parametrize("path", sorted(METHODS))
def test_what_a_method_creates_is_where_its_policy_says(path: str) -> None:
    creates = load_policies()["/" + path].creates
    message: Descriptor | None = METHODS[path].output_type
    for name in creates.split(".") if creates else []:
        assert message is not None
        message = message.fields_by_name[name].message_type
    if path.endswith("/SubmitTrajectories"):
        assert creates


def test_methods_that_change_something_need_more_than_the_scope_read() -> None:
    """A keyed mutation is one; so nothing that is written slips past the audit records."""
    policies = load_policies()
    keyed = {path for path in METHODS if policies["/" + path].idempotency == "request_id"}
    assert {path for path in keyed if policies["/" + path].scope in ("read", ANY)} == set()
