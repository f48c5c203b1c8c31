from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import ClassVar

import httpx
import pytest
from pydantic import BaseModel, ValidationError

from chassis.errors import FailedPrecondition
from libs.llm.errors import (
    ModelRateLimited,
    ModelRefusedCall,
    ModelReplyMalformed,
    ModelUnavailable,
    PromptTooLong,
    ResponseFormatRefused,
)
from libs.llm.failures import translate_failure

NOW = datetime(2025, 1, 1, 12, 0, 0, tzinfo=UTC)


class StatusError(Exception):
    """Shaped like the errors of OpenAI's library."""

    def __init__(self, status: int, code: str | None = None, retry_after: str | None = None, text: str = "") -> None:
        super().__init__(f"Error code: {status} {text}")
        self.status_code = status
        self.code = code
        self.response = httpx.Response(status, headers={"Retry-After": retry_after} if retry_after else {})


class ClientError(Exception):
    """Shaped like botocore's."""

    response: ClassVar[dict[str, dict[str, int]]] = {"ResponseMetadata": {"HTTPStatusCode": 503}}


class GoogleError(Exception):
    """Shaped like google-genai's."""

    code = 429


def convert(error: Exception) -> ModelUnavailable:
    return translate_failure(error, "m", now=lambda: NOW)


@pytest.mark.parametrize(
    ("error", "kind", "is_transient"),
    [
        (StatusError(429), ModelRateLimited, True),
        (StatusError(429, code="insufficient_quota"), ModelRefusedCall, False),
        (StatusError(500), ModelUnavailable, True),
        (StatusError(529), ModelUnavailable, True),
        (StatusError(408), ModelUnavailable, True),
        (StatusError(400), ModelRefusedCall, False),
        (StatusError(401), ModelRefusedCall, False),
        (StatusError(404), ModelRefusedCall, False),
        (StatusError(200), ModelReplyMalformed, True),
        (ClientError(), ModelUnavailable, True),
        (GoogleError(), ModelRateLimited, True),
        (ConnectionResetError("reset"), ModelUnavailable, True),
        (TimeoutError("slow"), ModelUnavailable, True),
        (httpx.ReadTimeout("slow"), ModelUnavailable, True),
        (httpx.RemoteProtocolError("cut off"), ModelUnavailable, True),
        (json.JSONDecodeError("no JSON", "x", 0), ModelReplyMalformed, True),
        (IndexError("no choices"), ModelReplyMalformed, True),
        (RuntimeError("odd"), ModelRefusedCall, False),
        (FailedPrecondition("ours"), ModelRefusedCall, False),
    ],
)
def test_the_class_of_a_failure_names_its_cause(
    error: Exception, kind: type[ModelUnavailable], is_transient: bool
) -> None:
    failure = convert(error)
    assert (type(failure), failure.is_transient, failure.code) == (kind, is_transient, "UNAVAILABLE")  # G-13


def test_a_reply_that_fails_validation_is_malformed() -> None:
    class Reply(BaseModel):
        content: str

    with pytest.raises(ValidationError) as caught:
        Reply.model_validate({"content": 7})
    assert isinstance(convert(caught.value), ModelReplyMalformed)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("2", 2.0),
        ("0.25", 0.25),
        ("Wed, 01 Jan 2025 12:00:30 GMT", 30.0),
        ("Wed, 01 Jan 2025 11:00:00 GMT", 0.0),
        ("soon", None),
        ("-1", None),
        ("9" * 400, None),
        (None, None),
    ],
)
def test_retry_after_is_read_in_both_forms(header: str | None, seconds: float | None) -> None:
    assert convert(StatusError(429, retry_after=header)).retry_after == seconds
    assert convert(StatusError(503, retry_after=header)).retry_after == seconds


def test_the_status_may_be_known_to_the_cause_alone() -> None:
    wrapper = RuntimeError("Error calling model")
    wrapper.__cause__ = StatusError(429, retry_after="5")
    failure = convert(wrapper)
    assert (type(failure), failure.retry_after) == (ModelRateLimited, 5)
    assert "HTTP 429: RuntimeError: Error calling model" in str(failure)


def test_an_error_that_is_named_already_stays_as_it_is() -> None:
    error = ModelRateLimited("429", retry_after=3)
    assert translate_failure(error, "m") is error


def test_the_text_of_a_failure_is_one_short_line_without_keys() -> None:
    error = ValueError("key sk-abcdef1234567890 and Bearer abc.def-123456\nand my-own-key " + "x" * 1000)
    text = str(translate_failure(error, "gpt-4o-mini", secrets=["my-own-key", ""]))
    assert "sk-abc" not in text
    assert "abc.def" not in text
    assert "my-own-key" not in text
    assert text.startswith("model gpt-4o-mini sent a malformed response: ValueError: key *** and *** and ***")
    assert len(text) < 400
    assert "\n" not in text


def test_a_key_that_is_a_word_is_not_masked_and_a_short_one_only_as_a_whole() -> None:
    error = ValueError("none of the 3 models: no key a1 in a1b2")
    assert "none of the 3 models" in str(translate_failure(error, "m", secrets=["none"]))
    assert "no key *** in a1b2" in str(translate_failure(error, "m", secrets=["a1"]))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens", 8192),
        ("the request exceeds the available context size (4096 tokens), try increasing it", 4096),
        ("Requested tokens (5000) exceed context window of 2048", 2048),
        ("prompt is too long: 210000 tokens > 200000 maximum", 200000),
        ('exceed_context_size_error "n_ctx": 4096', 4096),
        ("context_length_exceeded", None),
    ],
)
@pytest.mark.parametrize("status", [400, 413, 500])
def test_a_prompt_beyond_the_context_is_named_with_the_size(status: int, text: str, tokens: int | None) -> None:
    failure = convert(StatusError(status, text=text))
    assert isinstance(failure, PromptTooLong)
    assert (failure.context_tokens, failure.is_transient) == (tokens, False)


@pytest.mark.parametrize("status", [400, 422, 500, 501])
def test_a_complaint_about_the_format_is_not_transient(status: int) -> None:
    failure = convert(StatusError(status, text="response_format type must be one of text or json_object"))
    assert isinstance(failure, ResponseFormatRefused)
    assert not failure.is_transient
    assert not isinstance(convert(StatusError(429, text="response_format")), ResponseFormatRefused)
