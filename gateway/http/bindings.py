"""HTTP bindings of the contract's methods, read from their `google.api.http` rules.

Three conventions go beyond these rules: a body that maps to a field of bytes is a file, the body of a client-streaming
method is a list of its messages, and server-streaming methods answer with server-sent events.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from google.api import annotations_pb2, http_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor

WHOLE = "*"
"""The `body` of a rule whose body is the request without the fields in the path."""
_VARIABLE = re.compile(r"{([^{}]*)}")
_FIELD_PATH = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")


@dataclass(frozen=True)
class Binding:
    """A method under an HTTP verb and a path. `body` names the field in the body; empty: the request has no body.

    `number` is 0 for the rule of the method, and counts up in its `additional_bindings`.
    """

    verb: str
    path: str
    method: MethodDescriptor
    body: str = ""
    number: int = 0

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """Return the fields in the path, as dotted paths."""
        return tuple(_VARIABLE.findall(self.path))

    @cached_property
    def body_field(self) -> FieldDescriptor | None:
        """Return the field in the body; None if the body is the request."""
        return self.method.input_type.fields_by_name.get(self.body)

    @property
    def body_message(self) -> Descriptor | None:
        """Return the message type of the body; None without a body, or for a file."""
        if self.body == WHOLE:
            return self.method.input_type
        return self.body_field.message_type if self.body_field is not None else None

    @property
    def takes_file(self) -> bool:
        """Return whether the body is the bytes of a field."""
        return self.body_field is not None and self.body_field.type == FieldDescriptor.TYPE_BYTES

    @property
    def reads_query(self) -> bool:
        """Return whether fields come from the query."""
        return self.body != WHOLE

    @property
    def route(self) -> str:
        """Return the path for the router; variables are numbered, because parameter names cannot have dots."""
        numbers = iter(range(len(self.variables)))
        return _VARIABLE.sub(lambda _: f"{{v{next(numbers)}:segment}}", self.path)


def list_bindings(methods: Iterable[MethodDescriptor]) -> list[Binding]:
    """Return the bindings of methods in the order for the router: fixed paths before variable ones.

    Raises ValueError for a rule that the gateway cannot serve.
    """
    bindings = [binding for method in methods for binding in _iterate_method_bindings(method)]
    return sorted(bindings, key=lambda binding: [segment.startswith("{") for segment in binding.path.split("/")])


def _iterate_method_bindings(method: MethodDescriptor) -> Iterator[Binding]:
    options = method.GetOptions()
    if options.HasExtension(annotations_pb2.http):
        rule = options.Extensions[annotations_pb2.http]
        for number, http_rule in enumerate((rule, *rule.additional_bindings)):
            yield _build_rule_binding(http_rule, method, number)


def _build_rule_binding(rule: http_pb2.HttpRule, method: MethodDescriptor, number: int) -> Binding:
    verb = rule.WhichOneof("pattern")
    if verb in (None, "custom") or rule.response_body:
        raise ValueError(f"{method.full_name}: google.api.http must have a verb and a path, and no response_body")
    binding = Binding(verb.upper(), getattr(rule, verb), method, rule.body, number)
    unknown = [path for path in binding.variables if not _FIELD_PATH.fullmatch(path) or not _is_scalar(method, path)]
    if unknown or "*" in binding.path:
        raise ValueError(f"{method.full_name}: {binding.path}: variables must be names of scalar fields: {unknown}")
    if method.client_streaming and (binding.variables or binding.body != WHOLE):
        raise ValueError(f"{method.full_name}: a stream of requests needs body '*' and a path without variables")
    if rule.body not in ("", WHOLE) and binding.body_message is None and not binding.takes_file:
        raise ValueError(f"{method.full_name}: body {rule.body!r} must be a message or bytes")
    return binding


def _is_scalar(method: MethodDescriptor, path: str) -> bool:
    message: Descriptor | None = method.input_type
    *parents, last = path.split(".")
    for name in parents:
        field = message.fields_by_name.get(name) if message else None
        message = field.message_type if field is not None and not field.is_repeated else None
    field = message.fields_by_name.get(last) if message else None
    return field is not None and field.message_type is None and not field.is_repeated
