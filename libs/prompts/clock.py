"""The date and time that prompts show."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

Now = Callable[[tzinfo], datetime]


def get_current_datetime_with_timezone(environ: Mapping[str, str] | None = None, now: Now = datetime.now) -> str:
    """Return the current time as ISO 8601 in the zone of TZ, UTC if TZ is empty (B-28 to B-30).

    Raises ValueError when TZ is no IANA name.
    """
    name = (os.environ if environ is None else environ).get("TZ", "")
    return now(_load_zone(name)).isoformat()


def _load_zone(name: str) -> tzinfo:
    if not name.strip():
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):  # any reason why the zone cannot be loaded: not found, a path, a folder
        raise ValueError(
            f"Invalid timezone in TZ environment variable: {name}. "
            "Valid examples: 'UTC', 'Asia/Tokyo', 'America/New_York'"
        ) from None
