"""What can go wrong with a model, as errors that may cross a service boundary.

ModelUnavailable (Unavailable)              the provider failed; every failure of theirs is one of these (G-13)
├── ModelRateLimited                        429: retry_after says when to come back
├── ModelReplyMalformed                     an answer that is not the protocol's: cut off, not JSON, no choices
├── ModelRefusedCall                        key, quota or request refused; trying again cannot help
└── ReplyNotStructured                      the reply's text is not the JSON that was asked for
ModelDeadlineExceeded (DeadlineExceeded)    our caller's time is used up
ModelOffline (FailedPrecondition)           LLM_PROVIDER=offline, and something asked for a chat model
ProviderUnknown, KeyMissing,
ProviderNotInstalled (BadSetting)           wrong settings, found at start
"""

from __future__ import annotations

from typing import ClassVar

from chassis.errors import DeadlineExceeded, FailedPrecondition, Unavailable, shortened
from chassis.settings import BadSetting


class ModelUnavailable(Unavailable):
    """The model's provider did not answer, or answered that it cannot."""

    reason = "MODEL_UNAVAILABLE"
    may_pass: ClassVar[bool] = True
    """Whether the same call may succeed when it is made again."""


class ModelRateLimited(ModelUnavailable):
    """The provider wants fewer calls; `retry_after` holds its Retry-After in seconds, if it sent one."""

    reason = "MODEL_RATE_LIMITED"


class ModelReplyMalformed(ModelUnavailable):
    """The provider's answer is cut off or does not have the protocol's shape."""

    reason = "MODEL_REPLY_MALFORMED"


class ModelRefusedCall(ModelUnavailable):
    """The provider refuses this call: key, quota, model name or request; the same call will be refused again."""

    reason = "MODEL_REFUSED_CALL"
    may_pass = False


class ReplyNotStructured(ModelUnavailable):
    """The text of a reply is not a JSON object of the shape that was asked for."""

    reason = "MODEL_REPLY_NOT_STRUCTURED"
    may_pass = False


class ModelDeadlineExceeded(DeadlineExceeded):
    """The time for a call ran out, counting every attempt and the waiting in between."""

    reason = "MODEL_DEADLINE_EXCEEDED"


class ModelOffline(FailedPrecondition):
    """There is no chat model in offline mode."""

    reason = "MODEL_OFFLINE"


class ProviderUnknown(BadSetting):
    """No provider has this name (G-03)."""

    def __init__(self, provider: str) -> None:
        super().__init__(f"Unknown provider: {shortened(provider)}")


class KeyMissing(BadSetting):
    """The chosen provider needs a key and its variable is empty (G-08)."""

    def __init__(self, variable: str) -> None:
        super().__init__(f"{variable} is not set\nSet it, or set LLM_PROVIDER=offline to run without a model.")
        self.variable = variable


class ProviderNotInstalled(BadSetting):
    """The provider's library is not installed."""

    def __init__(self, provider: str, package: str, extra: str) -> None:
        super().__init__(f"provider {provider} needs {package}: pip install 'hansei[{extra}]'")
