"""Settings of the validator."""

from __future__ import annotations

from pydantic import Field

from chassis.settings import ServiceSettings, create_plain_field
from libs.prompts.language import LanguageSetting


class ValidatorSettings(ServiceSettings):
    """Settings of the validator: addresses, storage, and the models that judge.

    The model that writes reports is the one of LLM_PROVIDER and LLM_MODEL.
    """

    listen_address: str = "127.0.0.1:50055"
    """Address of gRPC, `host:port`. Port 0 selects a free port."""

    validator_database_url: str = Field("data/leaderboard.db", min_length=1)  # V-73
    """Database of entries, judgements and report kinds: a file name for SQLite, or a PostgreSQL URL."""

    validator_response_retention_days: float = Field(30.0, gt=0, le=3650)
    """Days for which the response to a request_id is stored, so that a repeated request changes nothing."""

    language: LanguageSetting = "auto"
    """Language of prompts for reports, scores and judgements: `ja`, `en`, or `auto`: Japanese for reports, the language
    of the query for the others."""

    workspace: str = ""
    """Folder whose `configs/prompt_builder.toml` contains the evaluator prompt. Empty: HANSEI_EVALUATOR_USER_PROMPT,
    else built-in."""

    evaluator_model: str = create_plain_field("")
    """Model that scores submissions, `provider:model-name`. Empty: that of LLM_PROVIDER and LLM_MODEL."""

    judge_model: str = create_plain_field("")
    """Model that judges whether another round is worthwhile, and compares submissions, `provider:model-name`. Empty:
    that of LLM_PROVIDER and LLM_MODEL."""

    rule_steps: int = Field(20_000, ge=100)
    """Limit of steps for one rule of a registered kind on one report."""

    rule_seconds: float = Field(0.25, gt=0)
    """Limit of seconds for one rule of a registered kind on one report."""
