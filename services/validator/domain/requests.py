"""What makes a repeated request recognisable."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestKey:
    """The id a caller gave a request, and a fingerprint of what it asked for."""

    request_id: str
    fingerprint: str
