"""The endpoints under `/api`: the validator generates and validates reports (G-22 to G-29)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from fastapi import APIRouter
from fastapi.responses import JSONResponse
from starlette.requests import Request

from chassis.errors import HanseiError, InvalidArgument, PermissionDenied, ResourceExhausted, Violation
from chassis.field_errors import describe_value
from chassis.logging import get_logger
from chassis.server import validation
from gateway.http.calls import ContractCalls
from gateway.http.json_codec import parse_object
from gateway.http.problems import get_http_status, log_failure
from hansei.validator.v1 import report_pb2 as report
from hansei.validator.v1 import validator_service_pb2 as validator

TYPES = ("organizer", "advisor")
METHODS = validator.DESCRIPTOR.services_by_name["ValidatorService"].methods_by_name
DOCUMENTS = yaml.safe_load(Path(__file__).with_name("report_documents.yaml").read_text(encoding="utf-8"))
"""The OpenAPI descriptions of the endpoints, whose bodies are no messages of the contract."""
_OWN_STATUS = (InvalidArgument, PermissionDenied, ResourceExhausted)

log = get_logger("hansei.gateway.http")


def build_routes(calls: ContractCalls) -> APIRouter:
    """Return the endpoints of reports."""
    router = APIRouter(prefix="/api", tags=["reports"])

    @router.post(
        "/organizer/run",
        operation_id="ValidatorService_RunOrganizer",
        summary="Generate an Organizer report",
        openapi_extra=DOCUMENTS["run"],
    )
    async def run_organizer(request: Request) -> JSONResponse:
        """Generate an Organizer report. A run without a valid report is not an error; then `ok` is false."""
        return await run_report(request, "RunOrganizer", validator.RunOrganizerRequest, validator.RunOrganizerResponse)

    @router.post(
        "/advisor/run",
        operation_id="ValidatorService_RunAdvisor",
        summary="Generate an Advisor report",
        openapi_extra=DOCUMENTS["run"],
    )
    async def run_advisor(request: Request) -> JSONResponse:
        """Generate an Advisor report on the focus node; if the request has none, on the first node."""
        return await run_report(request, "RunAdvisor", validator.RunAdvisorRequest, validator.RunAdvisorResponse)

    async def run_report(request: Request, name: str, kind: Any, response_kind: Any) -> JSONResponse:
        try:
            message = kind(brief=decode_brief(parse_object(await request.body())))
            validation.check(message)
            response = response_kind.FromString(await calls.unary(METHODS[name], request, message))
            return _run_response(response.run)
        except Exception as failure:
            return _build_error_response(failure, request, {"ok": False, "report": None})

    @router.post(
        "/proposal-quality/validate",
        operation_id="ValidatorService_ValidateReport",
        summary="Validate a report",
        openapi_extra=DOCUMENTS["validation"],
    )
    async def validate_report(request: Request) -> JSONResponse:
        """Validate a report and return all its errors and warnings."""
        try:
            message = build_validation(parse_object(await request.body()))
            validation.check(message)
            response = await calls.unary(METHODS["ValidateReport"], request, message)
            result = validator.ValidateReportResponse.FromString(response).result
        except Exception as failure:
            return _build_error_response(failure, request, {"ok": False})
        return JSONResponse({"ok": result.ok, "errors": list(result.errors), "warnings": list(result.warnings)})

    return router


def decode_brief(body: Mapping[str, Any]) -> report.DashboardBrief:
    """Return the input of a report (V-32); ids come only from the dashboard (G-26). Raises InvalidArgument."""
    constraints = body.get("constraints")
    texts = [constraints] if isinstance(constraints, str) else [] if constraints is None else constraints
    if not (isinstance(texts, list) and all(isinstance(text, str) for text in texts)):
        raise _build_invalid("constraints", "must be a string or a list of strings", constraints)
    return report.DashboardBrief(
        dashboard_json=json.dumps(body.get("dashboard")),
        focus_node_id=_decode_text(body, "focusNodeId"),
        user_intent=_decode_text(body, "userIntent"),
        constraints=texts,
    )


def _decode_text(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    if value is None or isinstance(value, str):
        return value
    raise _build_invalid(name, "must be a string", value)


def build_validation(body: Mapping[str, Any]) -> validator.ValidateReportRequest:
    """Return the request to validate a report (G-27, G-28). Raises InvalidArgument."""
    kind, ids = body.get("type"), body.get("validNodeIds")
    if kind not in TYPES:
        raise InvalidArgument("type must be 'organizer' or 'advisor'", reason="REPORT_TYPE_UNKNOWN")
    if ids is not None and not isinstance(ids, list):
        raise _build_invalid("validNodeIds", "must be a list of strings", ids)
    return validator.ValidateReportRequest(
        type=kind,
        report_json=json.dumps(body.get("report")),
        valid_node_ids=[node_id for node_id in ids or [] if isinstance(node_id, str)],
    )


def _build_invalid(name: str, rule: str, value: object) -> InvalidArgument:
    message = f"{name} {rule} (got {describe_value(value)})"
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


def _build_error_response(failure: Exception, request: Request, shape: Mapping[str, Any]) -> JSONResponse:
    """Return an error in the shape of the endpoint, without the details of unexpected ones (G-24, G-25, G-28, G-29)."""
    error = failure if isinstance(failure, HanseiError) else log_failure(failure, request)
    if not isinstance(error, _OWN_STATUS):
        log.warning("report endpoint failed", reason=error.reason, error=error.message)
    status = get_http_status(error) if isinstance(error, _OWN_STATUS) else 500
    return JSONResponse({**shape, "errors": [error.message], "warnings": []}, status)
