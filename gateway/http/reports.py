"""The three endpoints under `/api`: reports are made and checked by the validator (G-22 to G-29)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from starlette.requests import Request

from chassis.errors import HanseiError, InvalidArgument, PermissionDenied, ResourceExhausted, Violation, shorten
from chassis.logging import get_logger
from chassis.server import validation
from gateway.http.calls import ContractCalls
from gateway.http.json_codec import parse_object
from gateway.http.problems import logged_failure, status_of
from gateway.http.report_documents import REPORT_RUN, REPORT_VALIDATION
from hansei.validator.v1 import report_pb2 as report
from hansei.validator.v1 import validator_service_pb2 as validator

TYPES = ("organizer", "advisor")
METHODS = validator.DESCRIPTOR.services_by_name["ValidatorService"].methods_by_name
_OWN_STATUS = (InvalidArgument, PermissionDenied, ResourceExhausted)

log = get_logger("hansei.gateway.http")


def routes(calls: ContractCalls) -> APIRouter:
    """Return the endpoints of reports."""
    router = APIRouter(prefix="/api", tags=["reports"])

    @router.post("/organizer/run", summary="Make an Organizer report", openapi_extra=REPORT_RUN)
    async def run_organizer(request: Request) -> JSONResponse:
        """Generates an Organizer report; a run that ends without a valid one is an answer, too."""
        return await run(request, "RunOrganizer", validator.RunOrganizerRequest, validator.RunOrganizerResponse)

    @router.post("/advisor/run", summary="Make an Advisor report", openapi_extra=REPORT_RUN)
    async def run_advisor(request: Request) -> JSONResponse:
        """Generates an Advisor report on the focus node, else on the first node."""
        return await run(request, "RunAdvisor", validator.RunAdvisorRequest, validator.RunAdvisorResponse)

    async def run(request: Request, name: str, kind: Any, response_kind: Any) -> JSONResponse:
        try:
            message = kind(brief=brief_of(parse_object(await request.body())))
            validation.check(message)
            response = response_kind.FromString(await calls.unary(METHODS[name], request, message))
            return _run_response(response.run)
        except Exception as failure:
            return _failed(failure, request, {"ok": False, "report": None})

    @router.post("/proposal-quality/validate", summary="Check a report", openapi_extra=REPORT_VALIDATION)
    async def validate_report(request: Request) -> JSONResponse:
        """Checks a report and returns all its errors and warnings."""
        try:
            message = validation_of(parse_object(await request.body()))
            validation.check(message)
            response = await calls.unary(METHODS["ValidateReport"], request, message)
            result = validator.ValidateReportResponse.FromString(response).result
        except Exception as failure:
            return _failed(failure, request, {"ok": False})
        return JSONResponse({"ok": result.ok, "errors": list(result.errors), "warnings": list(result.warnings)})

    return router


def brief_of(body: Mapping[str, Any]) -> report.DashboardBrief:
    """Return what a report is made from (V-32); ids come from the dashboard alone (G-26). Raises InvalidArgument."""
    constraints = body.get("constraints")
    listed = [constraints] if isinstance(constraints, str) else [] if constraints is None else constraints
    if not (isinstance(listed, list) and all(isinstance(each, str) for each in listed)):
        raise _invalid("constraints", "must be a string or a list of strings", constraints)
    return report.DashboardBrief(
        dashboard_json=json.dumps(body.get("dashboard")),
        focus_node_id=_text(body, "focusNodeId"),
        user_intent=_text(body, "userIntent"),
        constraints=listed,
    )


def _text(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    if value is None or isinstance(value, str):
        return value
    raise _invalid(name, "must be a string", value)


def validation_of(body: Mapping[str, Any]) -> validator.ValidateReportRequest:
    """Return the request that checks a report (G-27, G-28). Raises InvalidArgument."""
    kind, ids = body.get("type"), body.get("validNodeIds")
    if kind not in TYPES:
        raise InvalidArgument("type must be 'organizer' or 'advisor'", reason="REPORT_TYPE_UNKNOWN")
    if ids is not None and not isinstance(ids, list):
        raise _invalid("validNodeIds", "must be a list of strings", ids)
    return validator.ValidateReportRequest(
        type=kind,
        report_json=json.dumps(body.get("report")),
        valid_node_ids=[each for each in ids or [] if isinstance(each, str)],
    )


def _invalid(name: str, rule: str, value: object) -> InvalidArgument:
    message = f"{name} {rule} (got {shorten(repr(value))})"
    return InvalidArgument(message, violations=[Violation(name, message)])


def _run_response(run: report.ReportRun) -> JSONResponse:
    if run.stop_reason == report.STOP_REASON_DASHBOARD_INVALID:
        return JSONResponse({"ok": False, "report": None, "errors": list(run.errors), "warnings": []}, 400)  # G-23
    content = {
        "ok": run.ok,
        "report": json.loads(run.report_json) if run.report_json else None,
        "errors": list(run.errors),
        "warnings": list(run.warnings),
    }
    if run.ok:  # G-74
        content["rendered"] = run.rendered
    return JSONResponse(content)


def _failed(failure: Exception, request: Request, shape: Mapping[str, Any]) -> JSONResponse:
    """Answer in the endpoint's own shape; only a known error tells its message (G-24, G-25, G-28, G-29)."""
    error = failure if isinstance(failure, HanseiError) else logged_failure(failure, request)
    if not isinstance(error, _OWN_STATUS):
        log.warning("report endpoint failed", reason=error.reason, error=error.message)
    status = status_of(error) if isinstance(error, _OWN_STATUS) else 500
    return JSONResponse({**shape, "errors": [error.message], "warnings": []}, status)
