"""Structured logs: one record a line, with the request and the trace they belong to, and never a secret.

``log = logging.get_logger("hansei.search")``, then ``log.info("index loaded", bullets=n)``; what the standard library's
loggers say takes the same way out.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from opentelemetry import trace

from chassis.calls import current_call

REDACTED = "[redacted]"
_SECRET_KEY = re.compile(
    r"(^|[_-])(api[_-]?key|authorization|token|password|passphrase|secret|cookie|credentials?|(private|access)[_-]?key)$",
    re.IGNORECASE,
)
# Each alternative names what of it may stay. Bounded where it could look back from many places over the same text.
_SECRET_TEXT = re.compile(
    r"(?P<scheme>\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}"
    r"|(?P<key>\bsk-)[A-Za-z0-9_-]{8,}"
    r"|(?P<google>\bAIza)[A-Za-z0-9_-]{20,}"
    r"|(?P<own>\bhansei_)[0-9a-f]{16}_[A-Za-z0-9_-]{16,}"
    r"|(?P<jwt>(?<![A-Za-z0-9_-])ey)J[A-Za-z0-9_-]{5,4000}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*"
    r"|(?P<pem>-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)(?s:.*?)(?:(?=-----END)|\Z)"
    # A password may hold `/` and `@`; what follows a port is none.
    r"|(?P<url>\b[a-z][a-z0-9+.-]{0,30}://[^\s:/@]*:)(?!\d+(?:[/?#]|$))[^\s\"'<>]{1,500}(?=@)"
    r"|(?P<given>(?:api[_-]?key|token|password|passphrase|secret|[?&](?:key|sig|signature))=)[^\s&;,\"']+",
    re.IGNORECASE,
)
_MAX_DEPTH = 6
_COLOURS = {"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}
_PLAIN = "\x1b[0m"

Record = Mapping[str, Any]


class Logger:
    """Writes records that are an event and its facts: ``log.warning("call failed", peer=peer, seconds=s)``."""

    def __init__(self, component: str) -> None:
        self._component = component

    def debug(self, event: str, **facts: Any) -> None:
        """A detail, for who looks for a fault."""
        self._tell(logging.DEBUG, event, facts)

    def info(self, event: str, **facts: Any) -> None:
        """What went as it should."""
        self._tell(logging.INFO, event, facts)

    def warning(self, event: str, *, exc_info: BaseException | None = None, **facts: Any) -> None:
        """What somebody should know of, with the exception if there was one."""
        self._tell(logging.WARNING, event, facts, exc_info)

    def error(self, event: str, *, exc_info: BaseException | None = None, **facts: Any) -> None:
        """What failed, with the exception if there was one."""
        self._tell(logging.ERROR, event, facts, exc_info)

    def exception(self, event: str, **facts: Any) -> None:
        """What failed, with the exception being handled."""
        self._tell(logging.ERROR, event, facts, sys.exception())

    def _tell(self, level: int, event: str, facts: Record, failure: BaseException | None = None) -> None:
        if level >= _output.threshold:
            record = {"event": event, "component": self._component, **facts}
            sys.stderr.write(_output.line(level, record, failure) + "\n")


def get_logger(name: str) -> Logger:
    """The logger of a component of ours."""
    return Logger(name)


def configure(level: str, form: str) -> None:
    """Send all logs to stderr: `form` is ``json`` or ``console``, `level` the least severe that is written."""
    global _output
    threshold = logging.getLevelNamesMapping()[level]
    _output = _Output(threshold, _as_json if form == "json" else _for_people)
    handler = _ToStderr()
    # Libraries write thousands of lines at DEBUG, some of them with whole requests in them.
    logging.basicConfig(level=max(threshold, logging.INFO), handlers=[handler], force=True)
    for chatty in ("httpx", "httpcore", "openai"):
        logging.getLogger(chatty).setLevel(max(threshold, logging.WARNING))


class _ToStderr(logging.Handler):
    """What the standard library's loggers say.

    `sys.stderr` is looked up for every record: in embeddings it may be another than when logging was configured.
    """

    def emit(self, record: logging.LogRecord) -> None:
        try:
            failure = record.exc_info[1] if record.exc_info else None
            sys.stderr.write(_output.line(record.levelno, {"event": record.getMessage()}, failure) + "\n")
        except Exception:
            self.handleError(record)


@dataclass(frozen=True, slots=True)
class _Output:
    """From which level on records are written, and how they look."""

    threshold: int
    rendered: Callable[[Record], str]

    def line(self, level: int, facts: Record, failure: BaseException | None) -> str:
        """The record as it is written: with where it belongs to, without what is secret."""
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        record = {**facts, "level": logging.getLevelName(level).lower(), "timestamp": now} | _belonging(facts)
        if failure is not None:
            record["exception"] = "".join(traceback.format_exception(failure)).rstrip()
        return self.rendered(redacted(record))


def _belonging(facts: Record) -> dict[str, str]:
    """The request id, the method and the trace id of the call in progress, unless `facts` name others."""
    found: dict[str, str] = {}
    if (call := current_call.get()) is not None:
        found = {"request_id": call.request_id, "method": call.method}
    if (context := trace.get_current_span().get_span_context()).is_valid:
        found["trace_id"] = trace.format_trace_id(context.trace_id)
    return {key: value for key, value in found.items() if key not in facts}


def _as_json(record: Record) -> str:
    return json.dumps(record, ensure_ascii=False, default=str)


def _for_people(record: Record) -> str:
    """Time, level and event, then the facts; a traceback below. Levels that matter have a colour on a terminal."""
    told = dict(record)
    when, level, event, failure = (told.pop(key, "") for key in ("timestamp", "level", "event", "exception"))
    shown = f"{level:<8}"
    if sys.stderr.isatty() and level in _COLOURS:
        shown = f"{_COLOURS[level]}{shown}{_PLAIN}"
    line = " ".join([when, shown, _on_one_line(event), *(f"{key}={_quoted(value)}" for key, value in told.items())])
    return f"{line}\n{failure}" if failure else line


def _on_one_line(value: object) -> str:
    """A value that cannot look like a record of its own, nor speak to the terminal."""
    text = str(value)
    return text if text.isprintable() else repr(text)[1:-1]


def _quoted(value: object) -> str:
    text = _on_one_line(value)
    return f'"{text}"' if " " in text and isinstance(value, str) else text


# Within a library, a test or a command line nobody calls `configure`: stdout is not ours, and details are not wanted.
_output = _Output(logging.WARNING, _for_people)


def redacted(record: Record) -> dict[str, Any]:
    """A record without what is secret in it, see `without_secrets`."""
    return {key: without_secrets(value, key) for key, value in record.items()}


def is_secret(key: str) -> bool:
    """Whether what goes by this name (``OPENAI_API_KEY``, ``authorization``) is not to be shown."""
    return bool(_SECRET_KEY.search(key))


def without_secrets(value: Any, key: object = None, depth: int = 0) -> Any:
    """A value without what is secret by its key or by its looks: keys and tokens of the usual forms, URL passwords,
    private keys, ``password=…``."""
    if isinstance(key, str) and value and is_secret(key):
        return REDACTED
    if isinstance(value, str):
        return _SECRET_TEXT.sub(_blanked, value)
    if depth < _MAX_DEPTH and isinstance(value, dict):
        return {k: without_secrets(v, k, depth + 1) for k, v in value.items()}
    if depth < _MAX_DEPTH and isinstance(value, list | tuple):
        return [without_secrets(item, None, depth + 1) for item in value]
    return value


def _blanked(match: re.Match[str]) -> str:
    return f"{match[match.lastgroup or 0]}{REDACTED}"
