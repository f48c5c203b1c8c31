"""Read the end of a reply: whole, cut at the limit of tokens, or declined by the model or a filter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chassis.errors import shorten

_AT_LIMIT = frozenset({"length", "max_tokens", "model_context_window_exceeded"})
_DECLINED = frozenset({"content_filter", "refusal", "safety", "blocklist", "prohibited_content", "recitation", "spii"})


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a reply: the provider's reason, whether it is cut at its limit, and the refusal, empty for none."""

    reason: str
    is_truncated: bool = False
    refusal: str = ""


def read_finish(message: object) -> Finish:
    """Return the end of a LangChain message; providers name it `finish_reason`, `stop_reason` or `stopReason`."""
    metadata = getattr(message, "response_metadata", None)
    extra = getattr(message, "additional_kwargs", None)
    reason = ""
    if isinstance(metadata, Mapping):
        named = (metadata.get(name) for name in ("finish_reason", "stop_reason", "stopReason"))
        reason = next((value for value in named if isinstance(value, str)), "")
    declined_with = extra.get("refusal") if isinstance(extra, Mapping) else None
    kind = reason.lower()
    refusal = shorten(declined_with) if isinstance(declined_with, str) and declined_with.strip() else ""
    if not refusal and kind in _DECLINED:
        refusal = f"finish reason {reason}"
    return Finish(reason, is_truncated=kind in _AT_LIMIT, refusal=refusal)
