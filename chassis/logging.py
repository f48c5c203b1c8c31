"""Structured logs: one record a line, with the ids of its call and trace, and without secrets.

``log = logging.get_logger("hansei.search")``, then ``log.info("index loaded", bullets=n)``. Records of the standard
library's loggers get the same form.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO, cast

import structlog
from opentelemetry import trace

from chassis.calls import current_call
from chassis.secrets import remove_secrets

Event = MutableMapping[str, Any]


def get_logger(name: str) -> Any:
    """Return a logger of events and their facts: ``log.warning("call failed", peer=peer, seconds=s)``."""
    return structlog.get_logger(component=name)


def configure(level: str, form: str, *, final: bool = False) -> None:
    """Send all logs to stderr: `form` is ``json`` or ``console``, `level` the least severe level that is written.

    If it is `final`, loggers in use ignore later configurations, and a record below the level costs almost nothing.
    """
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
        cache_logger_on_first_use=final,
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
