"""Errors of model calls; they may cross a service boundary.

ModelUnavailable (Unavailable)              any failure of the provider (G-13)
├── ModelRateLimited                        HTTP 429, with `retry_after`
├── ModelReplyMalformed                     the response violates the protocol: truncated, not JSON, no choices
├── ModelRefusedCall                        key, quota or request rejected; a retry cannot help
│   ├── PromptTooLong                       the prompt is beyond the model's context
│   └── ResponseFormatRefused               the server does not know the requested form of the reply
├── ReplyRefused                            the model or its filter declines to reply
└── ReplyNotStructured                      the reply's text is not the requested JSON
    └── ReplyTruncated                      the reply ends at its limit of tokens
ModelDeadlineExceeded (DeadlineExceeded)    the caller's time is used up
ModelOffline (FailedPrecondition)           a chat model was called with LLM_PROVIDER=offline
ProviderUnknown, KeyMissing,
ProviderNotInstalled (BadSetting)           wrong settings, found at start
"""

from __future__ import annotations

from typing import ClassVar

from chassis.errors import DeadlineExceeded, FailedPrecondition, Unavailable, shorten
from chassis.settings import BadSetting


class ModelUnavailable(Unavailable):
    """The model's provider sent no response, or an error."""

    reason = "MODEL_UNAVAILABLE"
    is_transient: ClassVar[bool] = True
    """True if the same call may succeed when it is repeated."""


class ModelRateLimited(ModelUnavailable):
    """The provider limits the rate of calls; `retry_after` is its Retry-After in seconds, if it sent one."""

    reason = "MODEL_RATE_LIMITED"


class ModelReplyMalformed(ModelUnavailable):
    """The provider's response is truncated or violates the protocol."""

    reason = "MODEL_REPLY_MALFORMED"


class ModelRefusedCall(ModelUnavailable):
    """The provider rejects this call for its key, quota, model name or request; a repeated call fails again."""

    reason = "MODEL_REFUSED_CALL"
    is_transient = False


class PromptTooLong(ModelRefusedCall):
    """The prompt does not fit the context of the model, which has `context_tokens` tokens, if the server says so."""

    reason = "MODEL_CONTEXT_EXCEEDED"

    def __init__(self, message: str, context_tokens: int | None = None) -> None:
        super().__init__(message)
        self.context_tokens = context_tokens


class ResponseFormatRefused(ModelRefusedCall):
    """The server does not know the requested form of the reply, such as a JSON schema."""

    reason = "MODEL_FORMAT_REFUSED"


class ReplyRefused(ModelUnavailable):
    """The model declines to reply, or a filter withholds the reply."""

    reason = "MODEL_REPLY_REFUSED"
    is_transient = False


class ReplyNotStructured(ModelUnavailable):
    """The text of a reply is not a JSON object of the requested shape."""

    reason = "MODEL_REPLY_NOT_STRUCTURED"
    is_transient = False


class ReplyTruncated(ReplyNotStructured):
    """The reply ends at its limit of tokens, before the JSON object is complete."""

    reason = "MODEL_REPLY_TRUNCATED"


class ModelDeadlineExceeded(DeadlineExceeded):
    """The time for a call, with all attempts and pauses, ran out."""

    reason = "MODEL_DEADLINE_EXCEEDED"


class ModelOffline(FailedPrecondition):
    """There is no chat model in offline mode."""

    reason = "MODEL_OFFLINE"


WAY_OUT = "set LLM_PROVIDER=offline to run without a model."


class ProviderUnknown(BadSetting):
    """No provider has this name (G-03)."""

    def __init__(self, provider: str) -> None:
        super().__init__(f"Unknown provider: {shorten(provider)}")


class KeyMissing(BadSetting):
    """The chosen provider needs a key, or several variables, that are empty (G-08)."""

    def __init__(self, *variables: str) -> None:
        self.problem = f"{', '.join(variables)} {'is' if len(variables) == 1 else 'are'} not set"
        super().__init__(f"{self.problem}\nSet {'it' if len(variables) == 1 else 'them'}, or {WAY_OUT}")
        self.variables = variables


class ProviderNotInstalled(BadSetting):
    """The provider's library is not installed."""

    def __init__(self, provider: str, package: str, extra: str) -> None:
        super().__init__(f"provider {provider} needs {package}, which is not installed\npip install 'hansei[{extra}]'")
