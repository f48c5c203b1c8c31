"""Settings of model calls: provider, model, keys, retries and prices (G-01)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import SecretStr, field_validator, model_validator

from chassis.retry import RetryPolicy
from chassis.settings import Settings, create_plain_field
from libs.llm.attempts import CallPolicy
from libs.llm.errors import KeyMissing
from libs.llm.providers import OFFLINE, OPENAI, PROVIDERS, find_provider
from libs.llm.usage import PUBLISHED_PRICES, Price

NO_KEY = "none"
"""The key for an OpenAI-compatible server that checks none; OpenAI's library requires some text."""


class ProviderSettings(Settings):
    """Keys, retry policy and prices: the same for chat and embedding models."""

    openai_api_key: SecretStr = create_plain_field(SecretStr(""))
    """Key of the OpenAI-compatible server. Not needed with OPENAI_BASE_URL, if that server checks no key."""

    openai_base_url: str = create_plain_field("")
    """Base URL of an OpenAI-compatible server, such as `http://127.0.0.1:11434/v1`. Empty: OpenAI itself."""

    anthropic_api_key: SecretStr = create_plain_field(SecretStr(""))
    """Key for the provider anthropic."""

    google_api_key: SecretStr = create_plain_field(SecretStr(""))
    """Key for the provider gemini."""

    llm_retries: int = create_plain_field(3, ge=0, le=10)
    """Retries of a call that failed with 429, 5xx, a timeout or a broken connection."""

    llm_retry_base_seconds: float = create_plain_field(1.0, ge=0)
    """Longest first pause between attempts, in seconds; it doubles with each attempt, with full jitter."""

    llm_retry_max_seconds: float = create_plain_field(30.0, ge=0)
    """Longest pause between attempts, in seconds. A longer Retry-After is returned to the caller."""

    llm_attempt_seconds: float = create_plain_field(60.0, gt=0)
    """Seconds until one attempt times out."""

    llm_call_seconds: float = create_plain_field(180.0, gt=0)
    """Seconds for a call with all its attempts; an earlier deadline of the caller takes precedence."""

    llm_concurrency: int = create_plain_field(8, ge=1)
    """Concurrent calls of one model; further calls wait."""

    llm_prices: dict[str, Price] = create_plain_field({})
    """US dollars per million tokens by model, as JSON: `{"my-model": {"input": 0.1, "output": 0.4}}`. Adds to the
    built-in list prices. The cost of a model without a price is unknown, not 0."""

    @property
    def call_policy(self) -> CallPolicy:
        """Return the retry policy and the time limits of model calls."""
        retry = RetryPolicy(
            attempts=self.llm_retries + 1,
            first_pause=self.llm_retry_base_seconds,
            longest_pause=self.llm_retry_max_seconds,
        )
        return CallPolicy(retry, self.llm_attempt_seconds, self.llm_call_seconds)

    def get_price(self, model: str) -> Price | None:
        """Return the model's price; None when it is unknown."""
        return self.llm_prices.get(model) or PUBLISHED_PRICES.get(model)

    def get_key(self, provider: str) -> str:
        """Return the provider's key, empty if it needs none. Raise KeyMissing if a required key is not set (G-08)."""
        found = find_provider(provider)
        if found.missing_variables:
            raise KeyMissing(*found.missing_variables)
        if not found.key_variable:
            return ""
        key: str = getattr(self, found.key_variable.lower()).get_secret_value()
        if key.strip():
            return key
        if provider == OPENAI and self.openai_base_url:
            return NO_KEY
        raise KeyMissing(found.key_variable)


class LLMSettings(ProviderSettings):
    """The chat model."""

    llm_provider: str = create_plain_field("openai")
    """Provider of the chat model: `openai` (also any OpenAI-compatible server), `anthropic`, `azure` (it reads
    AZURE_OPENAI_API_KEY, AZURE_OPENAI_ENDPOINT and OPENAI_API_VERSION), `bedrock` (it reads the variables and files of
    AWS), `gemini` (or its alias `google-gla`), or `offline`: no model, the services work by rules. `hansei up` without
    it takes `openai` if OPENAI_API_KEY or OPENAI_BASE_URL is set, else `offline`."""

    llm_model: str = create_plain_field("gpt-4o-mini", min_length=1)
    """The provider's name of the chat model. Unset with `anthropic` or `gemini`: a small model of theirs."""

    llm_temperature: float | None = create_plain_field(None, ge=0, le=2)
    """Sampling temperature. Empty: 0 for the reflector, the curator and the judges, else the provider's default. A
    model that takes no temperature is called without one."""

    llm_max_tokens: int | None = create_plain_field(None, ge=1)
    """Maximum tokens of a reply. Empty: the provider's default."""

    llm_context_tokens: int | None = create_plain_field(None, ge=1_000)
    """Tokens of the model's context, for prompt and reply. Longer prompts are reduced. Empty: the value that the server
    reports, else the one in its error message."""

    llm_structured_output: Literal["auto", "prompt"] = create_plain_field("auto")
    """Method for structured replies: `auto`: a JSON schema; if the server refuses it, the format `json_object`; if it
    refuses that, too, a description in the prompt. `prompt`: always a description in the prompt."""

    @model_validator(mode="before")
    @classmethod
    def _choose_model(cls, values: dict[str, Any]) -> dict[str, Any]:
        provider = PROVIDERS.get(str(values.get("llm_provider", OPENAI)))
        return {"llm_model": provider.default_model, **values} if provider and provider.default_model else values

    @field_validator("llm_provider")
    @classmethod
    def _check_provider(cls, provider: str) -> str:
        find_provider(provider)
        return provider

    @property
    def is_offline(self) -> bool:
        """Return whether there is no model; the service then uses its rule-based agents."""
        return self.llm_provider == OFFLINE
