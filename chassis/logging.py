"""Structured logs: one record a line, with the ids of its call and trace, and without secrets.

``log = logging.get_logger("hansei.search")``, then ``log.info("index loaded", bullets=n)``. Records of the standard
library's loggers get the same form.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator, MutableMapping
from typing import Any, TextIO, cast

import structlog
from opentelemetry import trace

from chassis.calls import current_call

REDACTED = "[redacted]"
_SECRET_KEY = re.compile(
    r"(^|[_-])(api[_-]?key|authorization|token|password|passphrase|secret|cookie|credentials?|(private|access)[_-]?key)$",
    re.IGNORECASE,
)
# The named group of each alternative is not redacted. Repetitions are bounded where matching could be quadratic.
_SECRET_TEXT = re.compile(
    r"(?P<scheme>\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}"
    r"|(?P<key>\bsk-)[A-Za-z0-9_-]{8,}"
    r"|(?P<google>\bAIza)[A-Za-z0-9_-]{20,}"
    r"|(?P<own>\bhansei_)[0-9a-f]{16}_[A-Za-z0-9_-]{16,}"
    r"|(?P<jwt>(?<![A-Za-z0-9_-])ey)J[A-Za-z0-9_-]{5,4000}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*"
    r"|(?P<pem>-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)(?s:.*?)(?:(?=-----END)|\Z)"
    # A password may hold `/` and `@`; the text after a port is no password.
    r"|(?P<url>\b[a-z][a-z0-9+.-]{0,30}://[^\s:/@]*:)(?!\d+(?:[/?#]|$))[^\s\"'<>]{1,500}(?=@)"
    # A member of a JSON object in a text, also where the JSON is itself a member of another one.
    r"|(?P<member>(?:api[_-]?key|authorization|token|password|passphrase|secret|cookie|credentials?|(?:private|access)"
    r"[_-]?key)(?P<quote>\\*\")\s{0,9}:\s{0,9}(?P=quote))(?:(?!(?P=quote)).)+"
    r"|(?P<assignment>(?:api[_-]?key|token|password|passphrase|secret|[?&](?:key|sig|signature))=)[^\s&;,\"']+",
    re.IGNORECASE,
)
_URL_ANCHOR = "://"
_ANCHORS = (
    *(
        "bearer",
        "basic",
        "sk-",
        "aiza",
        "hansei_",
        "eyj",
        "-----begin",
        "api",
        "authorization",
        "token",
        "pass",
        "secret",
    ),
    *("cookie", "credential", "private", "access", "?key", "&key", "?sig", "&sig", _URL_ANCHOR),
)
"""The beginning of each match of `_SECRET_TEXT` in lower case, and the `://` of a URL."""
_SCHEME_CHARS = "abcdefghijklmnopqrstuvwxyz0123456789+.-"
_MAX_SCHEME_CHARS = 31
_MAX_DEPTH = 6

Event = MutableMapping[str, Any]


def get_logger(name: str) -> Any:
    """Return a logger of events and their facts: ``log.warning("call failed", peer=peer, seconds=s)``."""
    return structlog.get_logger(component=name)


def configure(level: str, form: str) -> None:
    """Send all logs to stderr: `form` is ``json`` or ``console``, `level` the least severe level that is written."""
    threshold = logging.getLevelNamesMapping()[level]
    renderers: list[structlog.typing.Processor] = (
        [structlog.processors.JSONRenderer(ensure_ascii=False, default=str)]
        if form == "json"
        else [escape, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    )
    structlog.configure(
        processors=[*_SHARED, *renderers],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=_to_stderr,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(_stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    # Libraries log thousands of records at DEBUG, some with whole requests.
    logging.basicConfig(level=max(threshold, logging.INFO), handlers=[handler], force=True)
    for chatty in ("httpx", "httpcore", "openai"):
        logging.getLogger(chatty).setLevel(max(threshold, logging.WARNING))


class _Stderr:
    """A stream that writes to the `sys.stderr` of the moment; a host program may replace it after loggers exist."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


_stderr = _Stderr()


def _to_stderr(*names: str) -> structlog.PrintLogger:
    return structlog.PrintLogger(cast(TextIO, _stderr))


def add_call_ids(logger: Any, name: str, event: Event) -> Event:
    """Add the ids of the call in progress, its method and its trace id."""
    call = current_call.get()
    if call is not None:
        event.setdefault("correlation_id", call.correlation_id)
        if call.request_id:
            event.setdefault("request_id", call.request_id)
        event.setdefault("method", call.method)
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event.setdefault("trace_id", trace.format_trace_id(context.trace_id))
    return event


def redact(logger: Any, name: str, event: Event) -> Event:
    """Redact the secrets of a record, see `remove_secrets`."""
    for key, value in event.items():
        event[key] = remove_secrets(value, key)
    return event


def escape(logger: Any, name: str, event: Event) -> Event:
    """Escape line ends and control characters, except in a traceback, so that no value can forge a record."""
    for key, value in event.items():
        if isinstance(value, str) and key != "exception" and not value.isprintable():
            event[key] = repr(value)[1:-1]
    return event


def is_secret(key: str) -> bool:
    """Return whether values of this name (``OPENAI_API_KEY``, ``authorization``) are secret."""
    return bool(_SECRET_KEY.search(key))


def remove_secrets(value: Any, key: object = None, depth: int = 0) -> Any:
    """Return a value without its secrets, which are found by their key or form.

    The forms are usual API keys and tokens, passwords in URLs, private keys, and ``password=…``.
    """
    if isinstance(key, str) and value and is_secret(key):
        return REDACTED
    if isinstance(value, str):
        return _redact_text(value)
    if depth < _MAX_DEPTH and isinstance(value, dict):
        return {k: remove_secrets(v, k, depth + 1) for k, v in value.items()}
    if depth < _MAX_DEPTH and isinstance(value, list | tuple):
        return [remove_secrets(item, None, depth + 1) for item in value]
    return value


def _redact_text(text: str) -> str:
    """Return a text without its secrets: as by `_SECRET_TEXT.sub`, which takes twenty times as long."""
    folded = text.casefold()
    if len(folded) != len(text):  # places in one are not places in the other
        return _SECRET_TEXT.sub(_redact_match, text)
    parts: list[str] = []
    end = 0
    for start in sorted(start for anchor in _ANCHORS for start in _list_starts(folded, anchor)):
        match = _SECRET_TEXT.match(text, start) if start >= end else None
        if match is not None:
            parts += (text[end:start], _redact_match(match))
            end = match.end()
    return "".join([*parts, text[end:]]) if parts else text


def _list_starts(folded: str, anchor: str) -> Iterator[int]:
    """Yield where a match that has an anchor may begin: at the anchor, or anywhere in the scheme of a URL."""
    position = folded.find(anchor)
    while position >= 0:
        if anchor == _URL_ANCHOR:
            before = folded[max(0, position - _MAX_SCHEME_CHARS) : position]
            yield from range(position - len(before) + len(before.rstrip(_SCHEME_CHARS)), position)
        else:
            yield position
        position = folded.find(anchor, position + 1)


def _redact_match(match: re.Match[str]) -> str:
    return f"{match[match.lastgroup or 0]}{REDACTED}"


_SHARED: list[structlog.typing.Processor] = [
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    add_call_ids,
    structlog.processors.format_exc_info,
    redact,
]

# A library, a test or a command does not call `configure`: it logs warnings to stderr.
if not structlog.is_configured():
    structlog.configure(
        processors=[*_SHARED, escape, structlog.dev.ConsoleRenderer(colors=False)],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=_to_stderr,
    )
