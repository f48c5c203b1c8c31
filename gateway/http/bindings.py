"""HTTP bindings of the contract's methods, read from their `google.api.http` rules.

What a rule cannot say: a body that is a field of bytes is taken as it is (a file), the body of a method that takes a
stream is the list of its messages, and methods that stream answer server-sent events.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from google.api import annotations_pb2, http_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor

WHOLE = "*"
"""The `body` of a rule whose body is the request, less the fields in the path."""
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
    variables: tuple[str, ...] = field(init=False)
    """The fields in the path, as dotted paths."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "variables", tuple(_VARIABLE.findall(self.path)))

    @cached_property
    def body_field(self) -> FieldDescriptor | None:
        """The field that the body holds, if it is not the request."""
        return self.method.input_type.fields_by_name.get(self.body)

    @property
    def body_message(self) -> Descriptor | None:
        """The message that the body holds; None where there is no body, or a file."""
        if self.body == WHOLE:
            return self.method.input_type
        return self.body_field.message_type if self.body_field is not None else None

    @property
    def takes_file(self) -> bool:
        """Return True if the body is the bytes of a field."""
        return self.body_field is not None and self.body_field.type == FieldDescriptor.TYPE_BYTES

    @property
    def reads_query(self) -> bool:
        """Return True if fields come from the query."""
        return self.body != WHOLE

    @property
    def route(self) -> str:
        """The path for the router; variables are numbered, because names of parameters have no dots."""
        numbers = iter(range(len(self.variables)))
        return _VARIABLE.sub(lambda _: f"{{v{next(numbers)}:segment}}", self.path)


def bindings_of(methods: Iterable[MethodDescriptor]) -> list[Binding]:
    """Return the bindings of methods; a router that tries them in this order finds fixed paths before variable ones.

    Raises ValueError for a rule that the gateway cannot serve.
    """
    found = [binding for method in methods for binding in _of_method(method)]
    return sorted(found, key=lambda binding: [segment.startswith("{") for segment in binding.path.split("/")])


def _of_method(method: MethodDescriptor) -> Iterator[Binding]:
    options = method.GetOptions()
    if options.HasExtension(annotations_pb2.http):
        rule = options.Extensions[annotations_pb2.http]
        for number, each in enumerate((rule, *rule.additional_bindings)):
            yield _of_rule(each, method, number)


def _of_rule(rule: http_pb2.HttpRule, method: MethodDescriptor, number: int) -> Binding:
    verb = rule.WhichOneof("pattern")
    if verb in (None, "custom") or rule.response_body:
        raise ValueError(f"{method.full_name}: google.api.http must have a verb and a path, and no response_body")
    binding = Binding(verb.upper(), getattr(rule, verb), method, rule.body, number)
    unknown = [each for each in binding.variables if not _FIELD_PATH.fullmatch(each) or not _is_scalar(method, each)]
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
        found = message.fields_by_name.get(name) if message else None
        message = found.message_type if found is not None and not found.is_repeated else None
    found = message.fields_by_name.get(last) if message else None
    return found is not None and found.message_type is None and not found.is_repeated
