"""Conversion between errors and gRPC statuses, in both directions.

A status has exactly one ``ErrorInfo`` (reason, domain ``<service>.hansei``, metadata), a ``BadRequest`` if a request
broke rules, and a ``RetryInfo`` if a retry makes sense. All of it is in the HTTP/2 trailers. Peers drop trailers beyond
8 KiB, and the status with them, so all parts are truncated to fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from chassis.calls import create_id
from chassis.errors import HanseiError, Internal, Violation, build_error, shorten

DOMAIN_SUFFIX = ".hansei"
DETAILS_KEY = "grpc-status-details-bin"
PUSHBACK_KEY = "grpc-retry-pushback-ms"
MAX_VIOLATIONS = 50
MAX_TRAILER_BYTES = 7000
MAX_MESSAGE_BYTES = 3000
MAX_METADATA_CHARS = 200
MAX_INFO_BYTES = 1500
OMITTED = "violations_omitted"
UNANSWERED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
"""The codes with which gRPC ends a call that no handler answered: the peer was not reached, or its server stopped."""

_CODES = {code.name: code for code in grpc.StatusCode}
_SAFE_IN_MESSAGE = " !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"


@dataclass(frozen=True, slots=True)
class WireStatus:
    """A status as gRPC sends it."""

    code: grpc.StatusCode
    message: str
    trailers: tuple[tuple[str, str | bytes], ...]


def build_unknown_failure() -> Internal:
    """Return the error for an unexpected exception: it has a new `error_id` for the log, and no detail of the cause."""
    error_id = create_id()
    return Internal(f"internal error; the log has it under {error_id}", metadata={"error_id": error_id})


def encode(error: HanseiError, service: str) -> WireStatus:
    """Return the status for an error of `service`. An error from a peer keeps the peer's domain."""
    code = _CODES[error.code]
    message = _truncate_message(error.message)
    info = error_details_pb2.ErrorInfo(reason=error.reason, domain=error.domain or service + DOMAIN_SUFFIX)
    for key, value in error.metadata.items():
        fact = shorten(str(value), MAX_METADATA_CHARS)
        if info.ByteSize() + len(key.encode()) + len(fact.encode()) <= MAX_INFO_BYTES:
            info.metadata[key] = fact
    status = status_pb2.Status(code=code.value[0], message=message)
    if error.retry_after is not None:
        retry = Duration()
        retry.FromMilliseconds(max(1, round(error.retry_after * 1000)))
        status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=retry))
    if error.violations:
        free_bytes = MAX_TRAILER_BYTES - _count_encoded_bytes(message) - status.ByteSize() - info.ByteSize() - 200
        bad_request = _build_bad_request(error.violations, free_bytes)
        omitted = len(error.violations) - len(bad_request.field_violations)
        if omitted:
            info.metadata[OMITTED] = str(omitted)
        status.details.add().Pack(bad_request)
    status.details.add().Pack(info)
    details = (DETAILS_KEY, status.SerializeToString())
    return WireStatus(code, message, (details, *_build_pushback(error)))


def _build_pushback(error: HanseiError) -> tuple[tuple[str, str], ...]:
    """Return the trailer that allows or forbids gRPC's own retries: a failed model call was already retried."""
    if error.code != "UNAVAILABLE":
        return ()
    return ((PUSHBACK_KEY, "-1" if error.retry_after is None else str(round(error.retry_after * 1000))),)


def _build_bad_request(violations: tuple[Violation, ...], free_bytes: int) -> error_details_pb2.BadRequest:
    bad_request = error_details_pb2.BadRequest()
    for violation in violations[:MAX_VIOLATIONS]:
        item = error_details_pb2.BadRequest.FieldViolation(
            field=shorten(violation.field, 2 * MAX_METADATA_CHARS),
            description=shorten(violation.description, 2 * MAX_METADATA_CHARS),
            reason=violation.rule,
        )
        free_bytes -= item.ByteSize() + 4
        if free_bytes < 0:
            break
        bad_request.field_violations.append(item)
    return bad_request


def _count_encoded_bytes(message: str) -> int:
    return len(quote(message, safe=_SAFE_IN_MESSAGE))


def _truncate_message(message: str) -> str:
    """Return the message, truncated so that its percent-encoded form (up to twelve bytes a character) fits."""
    for limit in (len(message), 1000, 500, MAX_MESSAGE_BYTES // 12):
        text = shorten(message, limit)
        if _count_encoded_bytes(text) <= MAX_MESSAGE_BYTES:
            break
    return text


def is_unreachable(failure: grpc.aio.AioRpcError) -> bool:
    """Return whether no handler of the peer responded; a status with details is a response of the peer."""
    return failure.code() in UNANSWERED and _decode_details(failure) is None


def allows_retry(failure: grpc.aio.AioRpcError) -> bool:
    """Return whether a call of a method that may be retried is retried after this failure."""
    trailers: Any = failure.trailing_metadata() or ()
    is_forbidden = any(key == PUSHBACK_KEY and value == "-1" for key, value in trailers)
    return failure.code() in UNANSWERED and not is_forbidden


def decode(failure: grpc.aio.AioRpcError, peer: str) -> HanseiError:
    """Return the error of a failed call to `peer`: of the class that the peer raised, or that of gRPC's code."""
    status = _decode_details(failure)
    if status is None:
        return _remove_details(failure, peer)
    info, bad_request = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    retry = error_details_pb2.RetryInfo()
    for detail in status.details:
        for message in (info, bad_request, retry):
            if detail.Is(message.DESCRIPTOR):
                detail.Unpack(message)
    return build_error(
        failure.code().name,
        info.reason,
        status.message,
        violations=[Violation(v.field, v.description, v.reason) for v in bad_request.field_violations],
        metadata=info.metadata,
        retry_after=retry.retry_delay.ToMilliseconds() / 1000 if retry.HasField("retry_delay") else None,
        domain=info.domain,
    )


def _decode_details(failure: grpc.aio.AioRpcError) -> status_pb2.Status | None:
    trailers: Any = failure.trailing_metadata() or ()
    for key, value in trailers:
        if key == DETAILS_KEY and isinstance(value, bytes):
            try:
                return status_pb2.Status.FromString(value)
            except DecodeError:
                return None
    return None


def _remove_details(failure: grpc.aio.AioRpcError, peer: str) -> HanseiError:
    """Return the error for a status of gRPC itself; texts that may have internal addresses are replaced."""
    code = failure.code()
    match code:
        case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.CANCELLED:
            return build_error("UNAVAILABLE", "PEER_UNAVAILABLE", f"{peer} does not answer", metadata={"peer": peer})
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return build_error(
                code.name, "DEADLINE_EXCEEDED", f"{peer} did not answer in time", metadata={"peer": peer}
            )
        case grpc.StatusCode.UNKNOWN | grpc.StatusCode.INTERNAL:
            return build_error("INTERNAL", "PEER_FAILED", f"{peer} failed", metadata={"peer": peer})
        case _:
            return build_error(code.name, code.name, f"{peer}: {failure.details()}", metadata={"peer": peer})
