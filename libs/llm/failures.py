"""Converts the exceptions of all providers' libraries to the errors of this package.

The libraries are optional, so none is imported. All exceptions are read the same way: HTTP status, headers, class name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from chassis.errors import HanseiError, shorten
from libs.llm.errors import ModelRateLimited, ModelRefusedCall, ModelReplyMalformed, ModelUnavailable

MAX_PROVIDER_TEXT = 300
MAX_CAUSES = 8

_MAY_PASS = frozenset({408, 409, 425})
_BROKEN_CONNECTION = re.compile(r"(?i)connect|timeout|protocolerror|readerror|writeerror|networkerror")
_MALFORMED = (ValueError, TypeError, LookupError, AttributeError)
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


def is_refusal_of(parameter: str, error: Exception) -> bool:
    """Return whether a server answered 400 and named a parameter of the request."""
    return parameter in str(error) and any(_find_status(cause) == 400 for cause in _iterate_causes(error))


def _classify_status(status: int, message: str, error: BaseException, now: Callable[[], datetime]) -> ModelUnavailable:
    retry_after = _retry_after(error, now)
    if status == 429 and getattr(error, "code", None) != "insufficient_quota":
        return ModelRateLimited(message, retry_after=retry_after)
    if status >= 500 or status in _MAY_PASS:
        return ModelUnavailable(message, retry_after=retry_after)
    if status < 300:
        return ModelReplyMalformed(message)
    return ModelRefusedCall(message)


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
    """Retry-After in seconds (RFC 9110, 10.2.3: seconds or a date); None when absent or unreadable."""
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
        if secret:
            text = text.replace(secret, "***")
    return shorten(f"{type(error).__name__}: {_KEY_LIKE.sub('***', text)}", MAX_PROVIDER_TEXT)
