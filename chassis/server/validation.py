"""Validation of requests by the rules of the contract, with `protovalidate`, and by one rule for all texts.

PostgreSQL cannot store the character U+0000, and SQLite can. No text of a request may contain it, so that both give
the same response. The exception are `RECORDED_TEXTS`: the outputs of programs contain it, and the stores encode these
texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import protovalidate
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from chassis.errors import MAX_VALUE_CHARS, InvalidArgument, Violation, shorten
from chassis.field_errors import DATASET_NAME_RULE, describe_value

REASON = "INVALID_REQUEST"
_CUSTOM_RULES = {"cel", "cel_expression"}
_DESCRIPTIONS = {"dataset_name": DATASET_NAME_RULE}
"""Rules of the contract whose message, which the specification fixes, does not state the rule: the violation does."""
# The contracts exclude only the value 0 of an enum, which an omitted field has.
_MESSAGES = {"enum.not_in": "is required"}
_NUL = "\0"
_validator = protovalidate.Validator()

RECORDED_TEXTS = frozenset({
    "hansei.reflector.v1.Trajectory.query",
    "hansei.reflector.v1.Trajectory.generated_answer",
    "hansei.reflector.v1.Trajectory.reasoning_steps",
    "hansei.reflector.v1.Trajectory.error_message",
    "hansei.reflector.v1.Step.content",
    "hansei.reflector.v1.ToolCall.arguments",
    "hansei.reflector.v1.ReflectRequest.ground_truth",
    "hansei.reflector.v1.ReflectRequest.test_report",
    "hansei.reflector.v1.ReflectionResult.trajectory_query",
    "hansei.curator.v1.PrepareCurationRequest.query",
    "hansei.evidence.v1.StoreTrajectoryRequest.ground_truth",
    "hansei.evidence.v1.StoreTrajectoryRequest.test_report",
    "hansei.evidence.v1.RecallRequest.query_text",
    "hansei.evidence.v1.GuardedCall.arguments",
    "hansei.evidence.v1.SessionMessage.text",
    "hansei.evidence.v1.RecordedToolCall.result",
    "hansei.evidence.v1.ReportCallRequest.result",
    "hansei.gateway.v1.LearnRequest.ground_truth",
    "hansei.gateway.v1.LearnRequest.test_report",
    "hansei.gateway.v1.QueuedTrajectory.ground_truth",
    "hansei.gateway.v1.QueuedTrajectory.test_report",
    "hansei.planner.v1.Hit.content",
    "hansei.planner.v1.ToolContext.text",
    "hansei.search.v1.SearchQuery.query_text",
    "hansei.search.v1.EmbedRequest.texts",
})  # fmt: skip
"""Texts of tasks, agents and tools, which may contain U+0000; names and ids may not."""


def check(message: Message, *, may_contain_nul: bool = True) -> None:
    """Raise `InvalidArgument` if the message breaks its contract, with the text of the first violation.

    `may_contain_nul` is False if no text contains U+0000; otherwise it is examined.
    """
    found = [_explain(violation, message.DESCRIPTOR) for violation in _validator.collect_violations(message)]
    explained = {violation.field for _, violation in found}
    # Looking at each text takes forty times as long.
    if may_contain_nul and _NUL.encode() in message.SerializeToString():
        found += [_explain_nul(path, text) for path, text in _find_texts_with_nul(message) if path not in explained]
    if found:
        raise InvalidArgument(found[0][0], reason=REASON, violations=[violation for _, violation in found])


def _explain(violation: Any, request: Any) -> tuple[str, Violation]:
    """Return the status message of a violation, and the violation. A message of the contract is used unchanged.

    The violation describes the rule if the message of the contract does not.
    """
    broken = violation.proto
    path = _format_path(_list_elements(broken.field))
    rule = broken.rule_id.upper().replace(".", "_")
    if any(_is_contract_rule(element.field_name) for element in _list_elements(broken.rule)):
        stated = _DESCRIPTIONS.get(broken.rule_id)
        description = f"{path} {stated}{_format_value(violation.field_value)}" if stated else broken.message
        return broken.message, Violation(path, description, rule)
    stated = _MESSAGES.get(broken.rule_id) or _explain_oneof(_list_elements(broken.field), request)
    message = f"{path} {stated or broken.message.removeprefix('value ')}".strip()
    return message, Violation(path, message + _format_value(violation.field_value), rule)


def _explain_oneof(elements: Any, request: Any) -> str:
    """Return the rule of a required oneof, which names its fields; empty if the path does not end at a oneof."""
    if not elements or elements[-1].field_number:
        return ""
    message = request
    for element in elements[:-1]:
        message = message.fields_by_name[element.field_name].message_type
        if message.GetOptions().map_entry:
            message = message.fields_by_name["value"].message_type
    *others, last = (field.name for field in message.oneofs_by_name[elements[-1].field_name].fields)
    return f"is required: set {', '.join(others)} or {last}"


def _explain_nul(path: str, text: str) -> tuple[str, Violation]:
    message = f"{path} must not contain the character U+0000"
    return message, Violation(path, message + _format_value(text), "TEXT_NUL")


def _find_texts_with_nul(message: Message, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and value of the texts and map keys with U+0000, without recorded texts."""
    texts, others = _list_checked_fields(message.DESCRIPTOR)
    for name in texts:
        text = getattr(message, name)
        if _NUL in text:
            yield prefix + name, text
    for field in others:
        if not field.is_repeated:
            if message.HasField(field.name):
                yield from _find_texts_with_nul(getattr(message, field.name), f"{prefix}{field.name}.")
            continue
        items = getattr(message, field.name)
        for subscript, item in items.items() if isinstance(items, Mapping) else enumerate(items):
            path = f"{prefix}{field.name}{_format_subscript(subscript)}"
            if isinstance(subscript, str) and _NUL in subscript:
                yield path, subscript
            if isinstance(item, Message):
                yield from _find_texts_with_nul(item, f"{path}.")
            elif isinstance(item, str) and _NUL in item:
                yield path, item


@cache
def _list_checked_fields(message: Descriptor) -> tuple[tuple[str, ...], tuple[FieldDescriptor, ...]]:
    """Return the names of single texts that are no recorded ones, and the other fields that can contain texts."""
    fields = [
        field
        for field in message.fields
        if field.message_type is not None
        or (field.type == FieldDescriptor.TYPE_STRING and field.full_name not in RECORDED_TEXTS)
    ]
    texts = [field for field in fields if field.message_type is None and not field.is_repeated]
    return tuple(field.name for field in texts), tuple(field for field in fields if field not in texts)


def _list_elements(path: Any) -> Any:
    """Return the parts of a path; a rule of a whole message, such as a required oneof, has none."""
    return () if path is None else path.elements


def _is_contract_rule(rule: str) -> bool:
    """Return whether a rule is the contract's own: CEL beside the field, or an extension, whose name has brackets."""
    return rule in _CUSTOM_RULES or rule.startswith("[")


def _format_value(value: Any) -> str:
    """Return the invalid value for a description; empty for messages and collections."""
    if isinstance(value, str):
        # It may be as large as a message.
        return f" (got {shorten(repr(value[: MAX_VALUE_CHARS + 1]))})"
    return f" (got {describe_value(value)})" if isinstance(value, bytes | int | float) else ""


def _format_path(elements: Any) -> str:
    path = ""
    for element in elements:
        path += f".{element.field_name}" if path else element.field_name
        if element.subscript is not None:
            path += _format_subscript(element.subscript.value)
    return path


def _format_subscript(key: object) -> str:
    return f"[{json.dumps(shorten(key), ensure_ascii=False)}]" if isinstance(key, str) else f"[{key}]"
