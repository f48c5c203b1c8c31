"""Routes of the contract's methods: one generic handler over the descriptor and the HTTP rule of a method."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, aclosing
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chassis.calls import Call, current_call, get_correlation_id
from chassis.errors import HanseiError, InvalidArgument, NotFound, Violation, shorten
from chassis.field_errors import describe_value
from chassis.idempotency import FIELD, find_key_path, is_key, normalize_key, normalize_request_id
from chassis.server.admission import Admission
from chassis.server.progress import CallsInProgress
from gateway.contract import get_path
from gateway.http.bindings import Binding
from gateway.http.calls import ContractCalls
from gateway.http.events import Event, EventStream
from gateway.http.json_codec import JsonEncoder, convert, decode, decode_all, parse_list, parse_object
from gateway.http.middleware import SLOT
from gateway.http.resumption import LAST_EVENT, RESUMPTIONS

IDEMPOTENCY_KEY = "Idempotency-Key"
"""The header that may have the idempotency key of a change in place of `request_id` in the body."""
EXECUTION_ID = "execution_id"

_BOOLS = {"true": True, "false": False}


class ContractRoutes:
    """Build the route of each binding. Streams have a limit of their own and end when the server drains."""

    def __init__(self, calls: ContractCalls, streams: Admission, progress: CallsInProgress) -> None:
        self._calls = calls
        self._streams = streams
        self._progress = progress

    def build_routes(self, bindings: Sequence[Binding]) -> list[Route]:
        """Return the routes, in the order of the bindings."""
        self._encoder = JsonEncoder(binding.method.output_type for binding in bindings)
        return [Route(binding.route, self._build_handler(binding), methods=[binding.verb]) for binding in bindings]

    def _build_handler(self, binding: Binding) -> Callable[[Request], Any]:
        answer = self._answer_stream if binding.method.server_streaming else self._answer_unary
        path = get_path(binding.method)

        async def handle(request: Request) -> Response:
            try:
                message = await read_request(binding, request)
            except InvalidArgument as error:
                raise _build_path_error(binding, error) from error
            call = Call(path, get_correlation_id())
            for part in message if isinstance(message, list) else [message]:
                call.request_id = call.request_id or normalize_key(part)
            current_call.set(call)
            return await answer(binding, request, message)

        return handle

    async def _answer_unary(self, binding: Binding, request: Request, message: Any) -> Response:
        response = await self._calls.unary(binding.method, request, message)
        text = await convert(len(response), self._encoder.encode, binding.method.output_type, response)
        return Response(text, media_type="application/json")

    async def _answer_stream(self, binding: Binding, request: Request, message: Any) -> Response:
        if resumption := RESUMPTIONS.get(binding.method.full_name):
            resumption.resume(message, request.headers.get(LAST_EVENT, ""))
        with ExitStack() as entering:
            entering.enter_context(self._streams)
            request.scope[SLOT].close()  # streams do not count as requests
            slot = entering.pop_all()
        events, seconds = self._stream_events(binding, request, message), self._calls.seconds(binding.method)
        return await EventStream(events, seconds=seconds, progress=self._progress, slot=slot).build_response()

    async def _stream_events(self, binding: Binding, request: Request, message: Any) -> AsyncIterator[Event]:
        kind = binding.method.output_type
        resumption = RESUMPTIONS.get(binding.method.full_name)
        async with aclosing(self._calls.stream(binding.method, request, message)) as responses:  # type: ignore[type-var]
            async for response in responses:
                position = resumption.position(GetMessageClass(kind).FromString(response)) if resumption else None
                yield Event("message", self._encoder.encode(kind, response), position)


async def read_request(binding: Binding, request: Request) -> Any:
    """Return the message of a request, or the list of messages of a stream. Raises InvalidArgument."""
    kind, body = binding.method.input_type, await request.body()
    if binding.method.client_streaming:
        messages = parse_list(body)
        if messages:
            _set_idempotency_key(messages[0], request, kind)
        return await convert(len(body), decode_all, messages, kind)
    fields: dict[str, Any] = {}
    if binding.reads_query:
        _put_query(fields, request.query_params, kind)
    if binding.takes_file:
        _set_path_fields(fields, binding, request)
        return decode(fields, kind, files={binding.body: body})
    if binding.body_field:
        fields[binding.body] = parse_object(body)
    elif binding.body:
        fields = parse_object(body)
    _set_path_fields(fields, binding, request)
    _set_idempotency_key(fields, request, kind)
    return await convert(len(body), decode, fields, kind)


def _build_path_error(binding: Binding, error: InvalidArgument) -> HanseiError:
    """Return NotFound for an execution id in the path that no execution can have; else the error."""
    broken_rules = {violation.field for violation in error.violations if violation.rule}
    if broken_rules == {EXECUTION_ID} and EXECUTION_ID in binding.variables:
        return NotFound("the execution does not exist", reason="EXECUTION_NOT_FOUND", violations=error.violations)
    return error


def _set_path_fields(fields: dict[str, Any], binding: Binding, request: Request) -> None:
    """Add the fields in the path. Raises InvalidArgument if the body or the query has another value."""
    for number, path in enumerate(binding.variables):
        value = request.path_params[f"v{number}"]
        parent, name = _find_parent(fields, path)
        if parent.get(name, value) != value:
            source = "query" if binding.reads_query else "body"
            values = describe_value(parent[name]), describe_value(value)
            rule = f"{path} is {values[0]} in the {source} and {values[1]} in the path"
            raise InvalidArgument(rule, violations=[Violation(path, rule)])
        parent[name] = value


def _set_idempotency_key(fields: dict[str, Any], request: Request, kind: Descriptor) -> None:
    """Add the idempotency key in the header. Raises InvalidArgument if it is no UUID, or the body has another key."""
    wrappers, header = find_key_path(kind), request.headers.get(IDEMPOTENCY_KEY, "").strip().strip('"')
    if wrappers is None or not header:
        return
    holder = next((fields[name] for name in wrappers if name in fields), None) if wrappers else fields
    if not isinstance(holder, dict):
        return  # the message has no key, or the parser refuses it
    body_key = holder.get(FIELD, holder.get("requestId", header))
    rule = ""
    if not is_key(header):
        rule = f"{IDEMPOTENCY_KEY} must be a UUID"
    elif isinstance(body_key, str) and normalize_request_id(body_key) != normalize_request_id(header):
        rule = f"{IDEMPOTENCY_KEY} and {FIELD} in the body have different values"
    if rule:
        raise InvalidArgument(rule, violations=[Violation(IDEMPOTENCY_KEY, rule)])
    holder.setdefault("requestId" if "requestId" in holder else FIELD, header)


def _put_query(fields: dict[str, Any], query: QueryParams, kind: Descriptor) -> None:
    """Add the fields in a query, whose values are texts; a repeated field gets all its values."""
    for path in query:
        parent, name = _find_parent(fields, path)
        parent[name] = _parse_query_value(_find_field(kind, path), query.getlist(path))


def _find_parent(fields: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
    """Return the object with a field, and the name of the field. Raises InvalidArgument if it is no object."""
    *parents, name = path.split(".")
    for parent in parents:
        fields = fields.setdefault(parent, {})
        if not isinstance(fields, dict):
            rule = f"{shorten(path)} names a field of {parent}, which also has a value"
            raise InvalidArgument(rule, violations=[Violation(shorten(path), rule)])
    return fields, name


def _find_field(kind: Descriptor | None, path: str) -> FieldDescriptor | None:
    """Return the field at a dotted path; None if there is none."""
    field = None
    for name in path.split("."):
        fields: Mapping[str, FieldDescriptor] = kind.fields_by_name if kind is not None else {}
        field = fields.get(name)
        kind = field.message_type if field is not None else None
    return field


def _parse_query_value(field: FieldDescriptor | None, texts: list[str]) -> Any:
    is_bool = field is not None and field.type == FieldDescriptor.TYPE_BOOL
    values = [_BOOLS.get(text, text) for text in texts] if is_bool else texts
    return values if field is not None and field.is_repeated else values[-1]
