"""Errors over HTTP: a status from one table, and a problem document (RFC 9457) with the reason of gRPC."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from chassis.errors import HanseiError
from chassis.logging import get_logger
from chassis.status import build_unknown_failure
from gateway.orchestrator.workflow import GenerationFailed

PROBLEM = "application/problem+json"

STATUS_OF_CODE: Mapping[str, int] = {
    "INVALID_ARGUMENT": 400,
    "OUT_OF_RANGE": 400,
    "FAILED_PRECONDITION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "DATA_LOSS": 500,
    "INTERNAL": 500,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
"""The mapping that google/rpc/code.proto documents for each code."""

log = get_logger("hansei.gateway.http")


def get_http_status(error: HanseiError) -> int:
    """Return the HTTP status of an error; a failed generation is a bad gateway (G-21)."""
    return 502 if isinstance(error, GenerationFailed) else STATUS_OF_CODE[error.code]


def build_problem(error: HanseiError) -> JSONResponse:
    """Return the response with the problem document of an error."""
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(math.ceil(error.retry_after))
    return JSONResponse(build_problem_document(error), get_http_status(error), headers, media_type=PROBLEM)


def build_problem_document(error: HanseiError) -> dict[str, Any]:
    """Return the problem document of an error."""
    facts: dict[str, Any] = {"code": error.code, "reason": error.reason}
    if error.metadata:
        facts["metadata"] = error.metadata
    if error.violations:
        facts["violations"] = [asdict(violation) for violation in error.violations]
    return _build_content(get_http_status(error), error.message, facts)


def build_too_large(limit: int) -> JSONResponse:
    """Return the response to a body of more than `limit` bytes."""
    return _build_document(413, f"the body may have at most {limit} bytes", {"reason": "BODY_TOO_LARGE"})


def build_headers_too_large(limit: int) -> JSONResponse:
    """Return the response to a request line and headers of more than `limit` bytes."""
    detail = f"the request line and headers may have at most {limit} bytes"
    return _build_document(431, detail, {"reason": "HEADERS_TOO_LARGE"})


def build_too_slow(seconds: float) -> JSONResponse:
    """Return the response to a body that does not arrive within `seconds`, and would occupy its slot."""
    return _build_document(408, f"the body did not arrive within {seconds:g} s", {"reason": "BODY_TOO_SLOW"})


def _build_document(
    status: int, detail: str, facts: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> JSONResponse:
    return JSONResponse(_build_content(status, detail, facts), status, headers, media_type=PROBLEM)


def _build_content(status: int, detail: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **facts}


async def answer_hansei_error(request: Request, error: Exception) -> JSONResponse:
    """Return the problem document of an error."""
    assert isinstance(error, HanseiError)
    return build_problem(error)


async def answer_http_error(request: Request, error: Exception) -> JSONResponse:
    """Return the response to an unknown path or method."""
    assert isinstance(error, HTTPException)
    return _build_document(error.status_code, str(error.detail), {}, error.headers)


async def answer_unknown_error(request: Request, error: Exception) -> JSONResponse:
    """Log an unexpected error; return a response with its id."""
    return build_problem(log_failure(error, request))


def log_failure(error: Exception, request: Request) -> HanseiError:
    """Log an unexpected error; return an error that has only its id in the log."""
    internal_error = build_unknown_failure()
    error_id = internal_error.metadata["error_id"]
    log.error("request failed unexpectedly", error_id=error_id, path=request.url.path, exc_info=error)
    return internal_error
