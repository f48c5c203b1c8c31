"""A `grpcurl` line as a call of this process, which reads the contract from the server's reflection only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from tests.contract.readmes import CALL_SECONDS, Call, Example, parse_call


def by_reflection(example: Example, address: str) -> str:
    """Run a line as `readmes.by_buf` does; leave a stream after its first message."""
    call, served = parse_call(example), _served(address)
    service, _, name = call.method.partition("/")
    try:
        if not call.method:
            return "\n".join(served.database.get_services())
        method = served.pool.FindServiceByName(service).methods_by_name[name]
        answers = _answers(served.channel, method, call)
        return "\n".join(json_format.MessageToJson(answer, descriptor_pool=served.pool) for answer in answers)
    except (grpc.RpcError, json_format.ParseError, KeyError) as error:
        if call.may_fail and isinstance(error, grpc.RpcError):
            return ""
        raise AssertionError(f"{call.line}\n{error!r}") from error


class _ReflectedContract:
    """The contract as a server tells it, each file when it is first needed."""

    def __init__(self, address: str) -> None:
        self.channel = grpc.insecure_channel(address)
        self.database = ProtoReflectionDescriptorDatabase(self.channel)
        self.pool = DescriptorPool(self.database)


_served = cache(_ReflectedContract)


def _answers(channel: grpc.Channel, method: MethodDescriptor, call: Call) -> Iterator[Message]:
    kind: Any = channel.stream_stream(
        f"/{call.method}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=GetMessageClass(method.output_type).FromString,
    )
    answers = kind(iter(_requests(method, call)), timeout=call.stopped_after or CALL_SECONDS)
    for answer in answers:
        yield answer
        if call.stopped_after:
            answers.cancel()
            return


def _requests(method: MethodDescriptor, call: Call) -> list[Message]:
    """The JSON documents of the line, one behind another; none is an empty one."""
    pool, decoder, rest = method.containing_service.file.pool, json.JSONDecoder(), call.data.strip() or "{}"
    found = []
    while rest:
        document, end = decoder.raw_decode(rest)
        found.append(json_format.ParseDict(document, GetMessageClass(method.input_type)(), descriptor_pool=pool))
        rest = rest[end:].lstrip()
    return found
