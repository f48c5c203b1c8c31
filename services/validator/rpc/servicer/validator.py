"""ValidatorService: checks and generates reports, and registers kinds of reports."""

from __future__ import annotations

from typing import Any

from hansei.validator.v1 import validator_service_pb2 as pb
from hansei.validator.v1 import validator_service_pb2_grpc as rpc
from libs.storage.idempotency import IdempotencyKey, find_scope
from libs.storage.page_tokens import decode_page_token, encode_page_token
from services.validator.domain.kinds import ADVISOR, ORGANIZER
from services.validator.rpc.convert.kinds import decode_kind, encode_kind
from services.validator.rpc.convert.reports import (
    decode_brief,
    decode_options,
    decode_wording,
    encode_result,
    encode_run,
)
from services.validator.usecases.kinds import Kinds
from services.validator.usecases.run_reports import RunReports
from services.validator.usecases.validate_report import ValidateReport

DEFAULT_PAGE_SIZE = 50


class ValidatorServicer(rpc.ValidatorServiceServicer):
    """Checks reports of any kind and generates them, correcting their errors."""

    def __init__(self, kinds: Kinds, validate: ValidateReport, runs: RunReports) -> None:
        self._kinds = kinds
        self._validate = validate
        self._runs = runs

    async def ValidateReport(self, request: pb.ValidateReportRequest, context: Any) -> pb.ValidateReportResponse:
        """Check one report."""
        result = await self._validate(
            request.type, request.report_json, list(request.valid_node_ids), decode_wording(request.wording)
        )
        return pb.ValidateReportResponse(result=encode_result(result))

    async def RunOrganizer(self, request: pb.RunOrganizerRequest, context: Any) -> pb.RunOrganizerResponse:
        """Generate an Organizer report."""
        run = await self._runs.run_built_in(ORGANIZER, decode_brief(request.brief), decode_options(request.options))
        return pb.RunOrganizerResponse(run=encode_run(run))

    async def RunAdvisor(self, request: pb.RunAdvisorRequest, context: Any) -> pb.RunAdvisorResponse:
        """Generate an Advisor report."""
        run = await self._runs.run_built_in(ADVISOR, decode_brief(request.brief), decode_options(request.options))
        return pb.RunAdvisorResponse(run=encode_run(run))

    async def RunReport(self, request: pb.RunReportRequest, context: Any) -> pb.RunReportResponse:
        """Generate a report of a registered kind."""
        run = await self._runs.run_kind(
            request.type, request.inputs_json, list(request.valid_node_ids), decode_options(request.options)
        )
        return pb.RunReportResponse(run=encode_run(run))

    async def RegisterReportKind(
        self, request: pb.RegisterReportKindRequest, context: Any
    ) -> pb.RegisterReportKindResponse:
        """Register a kind of report."""
        key = IdempotencyKey.for_message(request, scope=find_scope(request.kind.name))
        registered = await self._kinds.register(key, decode_kind(request.kind))
        return pb.RegisterReportKindResponse(kind=encode_kind(registered))

    async def GetReportKind(self, request: pb.GetReportKindRequest, context: Any) -> pb.GetReportKindResponse:
        """Return a registered kind."""
        return pb.GetReportKindResponse(kind=encode_kind(await self._kinds.definitions.get(request.name)))

    async def ListReportKinds(self, request: pb.ListReportKindsRequest, context: Any) -> pb.ListReportKindsResponse:
        """List the registered kinds."""
        size = request.page_size or DEFAULT_PAGE_SIZE
        (after,) = decode_page_token(request, str) or ("",)
        found = await self._kinds.definitions.page(after, size + 1)
        more = encode_page_token(request, found[size - 1].definition.name) if len(found) > size else ""
        kinds = [encode_kind(registered) for registered in found[:size]]
        return pb.ListReportKindsResponse(kinds=kinds, next_page_token=more)

    async def DeleteReportKind(self, request: pb.DeleteReportKindRequest, context: Any) -> pb.DeleteReportKindResponse:
        """Remove a registered kind."""
        key = IdempotencyKey.for_message(request, scope=find_scope(request.name))
        await self._kinds.definitions.remove(key, request.name)
        return pb.DeleteReportKindResponse()
