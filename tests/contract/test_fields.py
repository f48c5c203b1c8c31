"""Every field of a request says how it behaves, and every text, list and number that comes in has a limit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from buf.validate import validate_pb2
from google.api import field_behavior_pb2
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from chassis.errors import InvalidArgument
from chassis.server import validation
from chassis.server.validation import RECORDED_TEXTS
from hansei.evidence.v1.evidence_service_pb2 import ReportOutcomeRequest
from hansei.planner.v1 import tool_pb2
from hansei.planner.v1.planner_service_pb2 import DrawPlanRequest
from hansei.validator.v1.kind_pb2 import ReportKind, ReportRule, RequiredRule
from tests.contract import contracts


def request_fields() -> dict[str, FieldDescriptor]:
    """Full name to field, for every field that can occur in a request."""
    found: dict[str, FieldDescriptor] = {}
    seen: set[str] = set()
    for method in contracts.methods():
        found |= {field.full_name: field for field in fields_below(method.input_type, seen)}
    return found


def fields_below(message: Descriptor, seen: set[str]) -> Iterator[FieldDescriptor]:
    if message.full_name in seen or not message.full_name.startswith("hansei."):
        return
    seen.add(message.full_name)
    for field in message.fields:
        if message.GetOptions().map_entry:
            continue
        yield field
        if field.message_type is not None:
            yield from fields_below(field.message_type, seen)


FIELDS = request_fields()


def _behaviours(field: FieldDescriptor) -> list[int]:
    return list(field.GetOptions().Extensions[field_behavior_pb2.field_behavior])


def _is_output(field: FieldDescriptor) -> bool:
    return field_behavior_pb2.OUTPUT_ONLY in _behaviours(field)


def _is_text(field: FieldDescriptor) -> bool:
    return field.type == FieldDescriptor.TYPE_STRING


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _find_enum(field: FieldDescriptor) -> EnumDescriptor | None:
    """Return the enum of a field, of its items, or of the values of a map."""
    if _is_map(field) and field.message_type is not None:
        return field.message_type.fields_by_name["value"].enum_type
    return field.enum_type


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_a_request_field_has_a_field_behavior(name: str) -> None:
    assert _behaviours(FIELDS[name]), f"{name} has no google.api.field_behavior"


@pytest.mark.parametrize("name", sorted(name for name, field in FIELDS.items() if not _is_output(field)))
def test_repeated_and_text_fields_are_bounded(name: str) -> None:
    """Texts, bytes, lists and maps have a maximum, because requests are untrusted."""
    field = FIELDS[name]
    rules = field.GetOptions().Extensions[validate_pb2.field]
    if field.is_repeated:
        assert rules.map.HasField("max_pairs") if _is_map(field) else rules.repeated.HasField("max_items"), name
    elif field.type == FieldDescriptor.TYPE_STRING:
        assert rules.string.ListFields(), f"{name} has no rule"
    elif field.type == FieldDescriptor.TYPE_BYTES:
        assert rules.bytes.HasField("max_len"), name


@pytest.mark.parametrize("name", sorted(name for name, field in FIELDS.items() if _find_enum(field) is not None))
def test_undeclared_values_of_enums_are_refused(name: str) -> None:
    """A client may send a field that only servers set, and proto3 accepts any number."""
    field = FIELDS[name]
    rules = field.GetOptions().Extensions[validate_pb2.field]
    if _is_map(field):
        assert rules.map.values.enum.defined_only, name
    elif field.is_repeated:
        assert rules.repeated.items.enum.defined_only, name
    else:
        assert rules.enum.defined_only, name


@pytest.mark.parametrize("name", sorted(name for name, field in FIELDS.items() if _is_text(field)))
def test_only_recorded_texts_may_contain_u0000(name: str) -> None:
    """PostgreSQL cannot store the character, and programs print it."""
    field = FIELDS[name]
    text = "a\0b"
    assert field.containing_type is not None
    message = GetMessageClass(field.containing_type)(**{field.name: [text] if field.is_repeated else text})
    violations: list[str] = []
    try:
        validation.check(message)
    except InvalidArgument as refused:
        violations = [violation.field.partition("[")[0] for violation in refused.violations]
    assert (field.name in violations) == (name not in RECORDED_TEXTS)


def test_recorded_texts_are_texts_of_requests() -> None:
    of_others = fields_below(tool_pb2.ToolInput.DESCRIPTOR, set())  # a tool service may use the chassis
    fields = [*FIELDS.values(), *of_others]
    assert {field.full_name for field in fields if _is_text(field)} >= RECORDED_TEXTS


@pytest.mark.parametrize(
    ("message", "field", "choice"),
    [
        (ReportOutcomeRequest(dataset="d", serving_id="s"), "outcome", "succeeded or reward"),
        (DrawPlanRequest(), "subject", "plan or execution_id"),
        (
            ReportKind(name="k", rules=[ReportRule(code="A", required=RequiredRule(path="/a")), ReportRule(code="B")]),
            "rules[1].check",
            "required, reference, count, wording or cel",
        ),
    ],
)
def test_a_missing_choice_is_named_with_the_fields_to_choose_from(message: Message, field: str, choice: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        validation.check(message)
    (violation,) = (violation for violation in refused.value.violations if violation.field == field)
    assert violation.description == f"{field} is required: set {choice}"
