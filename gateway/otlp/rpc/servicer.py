"""TraceService and LogsService of OTLP over gRPC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from chassis.policy import MethodPolicy
from chassis.server.service import Registration
from gateway.otlp.usecases.receive_exports import ExportReceiver

TRACE_METHOD: MethodDescriptor = trace_service_pb2.DESCRIPTOR.services_by_name["TraceService"].methods_by_name["Export"]
LOGS_METHOD: MethodDescriptor = logs_service_pb2.DESCRIPTOR.services_by_name["LogsService"].methods_by_name["Export"]
# The contract of OpenTelemetry has no policies: a repeated export stores the same spans of the same traces.
_POLICY = MethodPolicy(30.0, "natural", retry=False, scope="learn")
OTLP_METHODS: Mapping[MethodDescriptor, MethodPolicy] = {TRACE_METHOD: _POLICY, LOGS_METHOD: _POLICY}
"""The methods of OTLP, with their policies."""


class OtlpServicer:
    """Serves exports."""

    def __init__(self, receiver: ExportReceiver) -> None:
        self._receiver = receiver

    async def export_spans(self, request: trace_service_pb2.ExportTraceServiceRequest, context: Any) -> Any:
        """Store the spans of an export."""
        return await self._receiver.receive_spans(request)

    async def export_logs(self, request: logs_service_pb2.ExportLogsServiceRequest, context: Any) -> Any:
        """Store the GenAI events of an export."""
        return await self._receiver.receive_logs(request)


def create_registrations(servicer: OtlpServicer) -> list[Registration]:
    """Return the registrations of the two services.

    The generated code of opentelemetry-proto does not name methods to the server, so they are named here.
    """

    def add_trace_service(servicer: OtlpServicer, server: Any) -> None:
        _add_method(server, TRACE_METHOD, servicer.export_spans, trace_service_pb2.ExportTraceServiceRequest)

    def add_logs_service(servicer: OtlpServicer, server: Any) -> None:
        _add_method(server, LOGS_METHOD, servicer.export_logs, logs_service_pb2.ExportLogsServiceRequest)

    return [Registration(add_trace_service, servicer), Registration(add_logs_service, servicer)]


def _add_method(server: Any, method: MethodDescriptor, behaviour: Any, request_type: Any) -> None:
    handler = grpc.unary_unary_rpc_method_handler(
        behaviour,
        request_deserializer=request_type.FromString,
        response_serializer=lambda response: response.SerializeToString(),
    )
    server.add_registered_method_handlers(method.containing_service.full_name, {method.name: handler})
