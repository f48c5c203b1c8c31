"""Converts the exceptions of all providers' libraries to the errors of this package.

The libraries are optional, so none is imported. All exceptions are read the same way: HTTP status, headers, class name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from chassis.errors import HanseiError, shorten
from libs.llm.errors import (
    ModelRateLimited,
    ModelRefusedCall,
    ModelReplyMalformed,
    ModelUnavailable,
    PromptTooLong,
    ResponseFormatRefused,
)

MAX_PROVIDER_TEXT = 300
MAX_CAUSES = 8

_MAY_PASS = frozenset({408, 409, 425})
_BROKEN_CONNECTION = re.compile(r"(?i)connect|timeout|protocolerror|readerror|writeerror|networkerror")
_MALFORMED = (ValueError, TypeError, LookupError, AttributeError)
_UNKNOWN_PARAMETER = frozenset({400, 422})
_NO_COMPLAINT = frozenset({401, 403, 404, 408, 429})
"""Statuses that never mean that the contents of a request are wrong."""
_FORMAT = re.compile(r"(?i)response_format|json_schema|json_object|\bgrammar\b")
_CONTEXT = re.compile(
    r"(?i)context_length_exceeded|exceed_context_size|\b(?:context (?:length|size|window)|prompt is too long"
    r"|maximum (?:model|sequence) length|too many (?:input )?tokens)"
)
_CONTEXT_TOKENS = re.compile(
    r"(?i)(?:maximum context length (?:is|of)|context (?:size|window|length) ?(?:is|of|=|\()|n_ctx\D{1,4}|>)"
    r"\s*(\d[\d,]{2,9})"
)
_PLACEHOLDER_KEY = re.compile(r"[A-Za-z]{0,11}")
"""A key that is a word, such as `none`, belongs to a server that checks none; masking it would mask that word."""
_KEY_LIKE = re.compile(r"(?i)\b(?:sk-|bearer\s+)[A-Za-z0-9._*-]{6,}")


def translate_failure(
    error: Exception,
    model: str,
    secrets: Iterable[str] = (),
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> ModelUnavailable:
    """Return `error` as a ModelUnavailable whose text names the model, the failure and the provider's message."""
    if isinstance(error, ModelUnavailable):
        return error
    text = _describe(error, secrets)
    for cause in _iterate_causes(error):
        if (status := _find_status(cause)) is not None:
            return _classify_status(status, f"model {model} answered HTTP {status}: {text}", cause, now)
    if isinstance(error, OSError) or _is_broken_connection(error):
        return ModelUnavailable(f"model {model} cannot be reached: {text}")
    if isinstance(error, _MALFORMED) and not isinstance(error, HanseiError):
        return ModelReplyMalformed(f"model {model} sent a malformed response: {text}")
    return ModelRefusedCall(f"call to model {model} failed: {text}")


def names_rejected_parameter(parameter: str, error: Exception) -> bool:
    """Return whether a server answered 400 or 422 and named a parameter of the request."""
    return parameter in str(error) and any(
        _find_status(cause) in _UNKNOWN_PARAMETER for cause in _iterate_causes(error)
    )


def _classify_status(status: int, message: str, error: BaseException, now: Callable[[], datetime]) -> ModelUnavailable:
    retry_after = _retry_after(error, now)
    if status >= 400 and status not in _NO_COMPLAINT:
        # Servers of local models answer 500 where others answer 400.
        if _CONTEXT.search(message):
            return PromptTooLong(message, _find_context_tokens(message))
        if _FORMAT.search(message):
            return ResponseFormatRefused(message)
    if status == 429 and getattr(error, "code", None) != "insufficient_quota":
        return ModelRateLimited(message, retry_after=retry_after)
    if status >= 500 or status in _MAY_PASS:
        return ModelUnavailable(message, retry_after=retry_after)
    if status < 300:
        return ModelReplyMalformed(message)
    return ModelRefusedCall(message)


def _find_context_tokens(message: str) -> int | None:
    """Return the size of the model's context that an error names, None if it names none."""
    found = _CONTEXT_TOKENS.search(message)
    return int(found[1].replace(",", "")) if found else None


def _iterate_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error and its causes: LangChain often wraps the error that has the status."""
    for _ in range(MAX_CAUSES):
        if error is None:
            return
        yield error
        error = error.__cause__


def _find_status(error: BaseException) -> int | None:
    """Return the HTTP status: `status_code` of openai and httpx, `code` of google, inside `response` of botocore."""
    response = getattr(error, "response", None)
    metadata = response.get("ResponseMetadata", {}) if isinstance(response, Mapping) else {}
    for candidate in (
        getattr(error, "status_code", None),
        getattr(response, "status_code", None),
        metadata.get("HTTPStatusCode"),
        getattr(error, "code", None),
    ):
        if isinstance(candidate, int) and 100 <= candidate <= 599:
            return int(candidate)
    return None


def _retry_after(error: BaseException, now: Callable[[], datetime]) -> float | None:
    """Return the Retry-After in seconds (RFC 9110, 10.2.3: seconds or a date); None if absent or unreadable."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    value = headers.get("retry-after") if headers is not None else None
    if not isinstance(value, str):
        return None
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value.strip()):
        return float(value)
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - now()).total_seconds())


def _is_broken_connection(error: Exception) -> bool:
    return any(_BROKEN_CONNECTION.search(cls.__name__) for cls in type(error).__mro__)


def _describe(error: Exception, secrets: Iterable[str]) -> str:
    """Return the error's class and the start of its text, on one line, without keys."""
    text = " ".join(str(error).split())
    for secret in secrets:
        if not _PLACEHOLDER_KEY.fullmatch(secret):
            text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(secret)}(?![A-Za-z0-9])", "***", text)
    return shorten(f"{type(error).__name__}: {_KEY_LIKE.sub('***', text)}", MAX_PROVIDER_TEXT)
