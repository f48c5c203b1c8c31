"""ValidatorService: reports are checked and generated."""

from __future__ import annotations

from typing import Any

from chassis.errors import Unimplemented
from hansei.validator.v1 import validator_service_pb2 as pb
from hansei.validator.v1 import validator_service_pb2_grpc as rpc
from services.validator.rpc.convert_reports import brief_of, options_of, result_message, run_message, wording_of
from services.validator.usecases.run_reports import RunReports
from services.validator.usecases.validate_report import ValidateReport


class ValidatorServicer(rpc.ValidatorServiceServicer):
    """Checks reports of any kind and generates them, correcting what is wrong."""

    def __init__(self, validate: ValidateReport, runs: RunReports) -> None:
        self._validate = validate
        self._runs = runs

    async def ValidateReport(self, request: pb.ValidateReportRequest, context: Any) -> pb.ValidateReportResponse:
        """Checks one report."""
        result = await self._validate(
            request.type, request.report_json, list(request.valid_node_ids), wording_of(request.wording)
        )
        return pb.ValidateReportResponse(result=result_message(result))

    async def RunOrganizer(self, request: pb.RunOrganizerRequest, context: Any) -> pb.RunOrganizerResponse:
        """Generates an Organizer report."""
        run = await self._runs.organizer(brief_of(request.brief), options_of(request.options))
        return pb.RunOrganizerResponse(run=run_message(run))

    async def RunAdvisor(self, request: pb.RunAdvisorRequest, context: Any) -> pb.RunAdvisorResponse:
        """Generates an Advisor report."""
        run = await self._runs.advisor(brief_of(request.brief), options_of(request.options))
        return pb.RunAdvisorResponse(run=run_message(run))

    async def RunReport(self, request: pb.RunReportRequest, context: Any) -> pb.RunReportResponse:
        """Generates a report of a registered kind."""
        run = await self._runs.of_kind(
            request.type, request.inputs_json, list(request.valid_node_ids), options_of(request.options)
        )
        return pb.RunReportResponse(run=run_message(run))

    async def RegisterReportKind(
        self, request: pb.RegisterReportKindRequest, context: Any
    ) -> pb.RegisterReportKindResponse:
        """Not in this build yet."""
        raise Unimplemented("RegisterReportKind is not in this build")

    async def GetReportKind(self, request: pb.GetReportKindRequest, context: Any) -> pb.GetReportKindResponse:
        """Not in this build yet."""
        raise Unimplemented("GetReportKind is not in this build")

    async def ListReportKinds(self, request: pb.ListReportKindsRequest, context: Any) -> pb.ListReportKindsResponse:
        """Not in this build yet."""
        raise Unimplemented("ListReportKinds is not in this build")

    async def DeleteReportKind(self, request: pb.DeleteReportKindRequest, context: Any) -> pb.DeleteReportKindResponse:
        """Not in this build yet."""
        raise Unimplemented("DeleteReportKind is not in this build")
