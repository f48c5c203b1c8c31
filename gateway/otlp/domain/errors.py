"""Errors of traces.

ResourceExhausted OTLP_STORE_FULL
InvalidArgument   MALFORMED_EXPORT
"""

from __future__ import annotations

from chassis.errors import InvalidArgument, ResourceExhausted

FULL_RETRY_SECONDS = 30.0


class TraceStoreFull(ResourceExhausted):
    """The spans that wait for the end of their traces fill the store."""

    reason = "OTLP_STORE_FULL"

    def __init__(self, stored: int, limit: int) -> None:
        super().__init__(
            f"{stored} bytes of spans wait for the end of their traces, and HANSEI_OTLP_MAX_BYTES is {limit}; "
            "nothing of this export was stored, send it again later",
            retry_after=FULL_RETRY_SECONDS,
        )


class MalformedExport(InvalidArgument):
    """The body is no OTLP export."""

    reason = "MALFORMED_EXPORT"
