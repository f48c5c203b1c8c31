"""Receive exports: store the spans and events of the datasets that the caller may write."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from gateway.otlp.domain.datasets import is_dataset
from gateway.otlp.domain.trace import StoreResult
from gateway.otlp.usecases.ports import Caller, TraceStore
from gateway.otlp.usecases.split_exports import SplitExport, list_event_traces, split_logs, split_spans

MAX_MESSAGE_CHARS = 1000
REASONS = {
    StoreResult.LATE: "the trace was learned or given up before",
    StoreResult.TOO_LARGE: "the trace has more than HANSEI_OTLP_TRACE_MAX_BYTES",
}


class ExportReceiver:
    """Receives the exports of any caller. Threads split them: an export of some megabytes takes tenths of a second."""

    def __init__(
        self,
        store: TraceStore,
        datasets: Mapping[str, str],
        caller: Callable[[], Caller],
        *,
        notify: Callable[[], None] = lambda: None,
        count: Callable[[str, int], None] = lambda outcome, items: None,
    ) -> None:
        """`notify` is called after parts were stored; `count` gets numbers of spans and events by outcome."""
        self._store = store
        self._datasets = datasets
        self._caller = caller
        self._notify = notify
        self._count = count

    async def receive_spans(self, request: ExportTraceServiceRequest) -> ExportTraceServiceResponse:
        """Store the spans of an export. Raises TraceStoreFull, StoreUnavailable."""
        rejected = await self._store_parts(await asyncio.to_thread(split_spans, request, self._datasets))
        response = ExportTraceServiceResponse()
        if rejected:
            response.partial_success.rejected_spans = sum(rejected.values())
            response.partial_success.error_message = "; ".join(rejected)[:MAX_MESSAGE_CHARS]
        return response

    async def receive_logs(self, request: ExportLogsServiceRequest) -> ExportLogsServiceResponse:
        """Store the GenAI events of an export. Raises TraceStoreFull, StoreUnavailable."""
        traces = await asyncio.to_thread(list_event_traces, request)
        stored = await self._store.find_datasets(self._caller().tenant, traces)
        rejected = await self._store_parts(await asyncio.to_thread(split_logs, request, self._datasets, stored))
        response = ExportLogsServiceResponse()
        if rejected:
            response.partial_success.rejected_log_records = sum(rejected.values())
            response.partial_success.error_message = "; ".join(rejected)[:MAX_MESSAGE_CHARS]
        return response

    async def _store_parts(self, export: SplitExport) -> Mapping[str, int]:
        """Store the parts of an export; return the numbers of rejected items by reason."""
        caller, counts = self._caller(), Counter[str]()
        permitted = []
        for part in export.parts:
            dataset = part.key.dataset
            if not is_dataset(dataset):
                export.reject(
                    f"{dataset[:80]!r} is no dataset: it must be 1 to 128 of A-Z, a-z, 0-9, _ and -", part.items
                )
            elif not caller.owns(dataset):
                export.reject(f"no dataset {dataset!r}", part.items)
            else:
                permitted.append(part)
        if permitted:
            for part, result in zip(permitted, await self._store.add_parts(caller.tenant, permitted), strict=True):
                counts[result.value] += part.items
                if result is not StoreResult.STORED:
                    export.reject(REASONS[result], part.items)
            self._notify()
        counts["rejected"] = sum(export.rejected.values()) - counts["late"] - counts["too large"]
        for outcome, items in counts.items():
            if items:
                self._count(outcome, items)
        return export.rejected
