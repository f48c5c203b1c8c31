"""The planner's own configuration: `config/grace_config.yml`, then `GRACE_<SECTION>_<KEY>` on top (P-123 to P-128)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from chassis.logging import get_logger
from chassis.settings import BadSetting
from services.planner.domain.confidence import ConfidenceWeights
from services.planner.domain.thresholds import Thresholds

_log = get_logger(__name__)

PREFIX = "GRACE_"


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class LLMRetry(_Section):
    """How model calls are repeated."""

    max_retries: int = Field(default=3, ge=0, le=10)
    base_seconds: float = Field(default=1.0, ge=0)
    max_seconds: float = Field(default=30.0, ge=0)


class LLM(_Section):
    """The model that plans, reasons and evaluates (P-126, P-127)."""

    provider: str = "gemini"
    model: str = "gemini-2.5-flash"
    temperature: float = Field(default=0.7, ge=0, le=2)
    max_tokens: int = Field(default=4096, ge=1)
    timeout_seconds: float = Field(default=30.0, gt=0)
    retry: LLMRetry = LLMRetry()


class PlannerSection(_Section):
    """How plans are made (P-14, P-15)."""

    simple_threshold: float = Field(default=0.4, ge=0, le=1)
    llm_complexity: bool = False


class ExecutorSection(_Section):
    """How plans are executed."""

    max_parallel_steps: int = Field(default=8, ge=1, le=20)


class Search(_Section):
    """How `rag_search` searches (P-29)."""

    limit: int = Field(default=5, ge=1, le=100)
    score_threshold: float = Field(default=0.35, ge=0, le=1)


class Weights(_Section):
    """Shares of the confidence's parts (P-60)."""

    search_quality: float = 0.25
    source_agreement: float = 0.20
    llm_self_eval: float = 0.25
    tool_success: float = 0.15
    query_coverage: float = 0.15

    @model_validator(mode="after")
    def _sum(self) -> Weights:
        ConfidenceWeights(**self.model_dump())
        return self


class ThresholdSection(_Section):
    """The configured thresholds (P-75, P-77)."""

    silent: float = 0.9
    notify: float = 0.7
    confirm: float = 0.4

    @model_validator(mode="after")
    def _order(self) -> ThresholdSection:
        Thresholds(**self.model_dump())
        return self


class Confidence(_Section):
    """How confidence is measured and what follows from it."""

    weights: Weights = Weights()
    thresholds: ThresholdSection = ThresholdSection()
    mode: Literal["adjusted", "guaranteed"] = "adjusted"


class Adjustment(_Section):
    """How feedback moves the thresholds (P-89)."""

    learning_rate: float = Field(default=0.05, gt=0, lt=1)
    min_samples: int = Field(default=10, ge=1)


class Guarantee(_Section):
    """What the mode `guaranteed` holds."""

    alpha: float = Field(default=0.10, gt=0, lt=1)
    delta: float = Field(default=0.10, gt=0, lt=1)
    audit_rate: float = Field(default=0.10, ge=0.10, le=1)


class Intervention(_Section):
    """How people are asked (P-88)."""

    default_timeout: int = Field(default=300, ge=1)
    auto_proceed_on_timeout: bool = False
    max_clarification_rounds: int = Field(default=3, ge=0)


class Replan(_Section):
    """When a plan is replaced (P-92)."""

    max_replans: int = Field(default=3, ge=0)
    confidence_threshold: float = Field(default=0.4, ge=0, le=1)
    cooldown_seconds: float = Field(default=5.0, ge=0)


class GraceConfig(_Section):
    """The whole configuration; every key has an effect (P-128)."""

    llm: LLM = LLM()
    planner: PlannerSection = PlannerSection()
    executor: ExecutorSection = ExecutorSection()
    search: Search = Search()
    confidence: Confidence = Confidence()
    adjustment: Adjustment = Adjustment()
    guarantee: Guarantee = Guarantee()
    intervention: Intervention = Intervention()
    replan: Replan = Replan()


def load_grace_config(path: Path, environ: Mapping[str, str]) -> GraceConfig:
    """The configuration of a file and an environment. Errors: BadSetting, naming what is wrong (G-10, P-77)."""
    merged = _from_file(path)
    known = {"_".join(keys).upper(): keys for keys in sorted(_leaves(GraceConfig), key=len)}
    for name, text in environ.items():
        if not name.startswith(PREFIX):
            continue
        keys = known.get(name.removeprefix(PREFIX))
        if keys is None:
            _log.warning("unknown setting", variable=name)
            continue
        _put(merged, keys, parsed(text))
    try:
        return GraceConfig.model_validate(merged)
    except ValidationError as error:
        raise BadSetting("\n".join(_complaints(error))) from error


def _complaints(error: ValidationError) -> Iterator[str]:
    for item in error.errors(include_url=False, include_context=False):
        keys = [str(part) for part in item["loc"]]
        yield f"{PREFIX}{'_'.join(keys).upper()} ({'.'.join(keys)}): {item['msg'].removeprefix('Value error, ')}"


def _from_file(path: Path) -> dict[str, Any]:
    """The file's content; nothing, and a log line, if it is missing or broken (P-123)."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        _log.warning("settings file cannot be read; not using it", file=str(path.name), error=type(error).__name__)
        return {}
    if content is None:
        return {}
    if not isinstance(content, dict):
        _log.warning("settings file holds no mapping; not using it", file=str(path.name))
        return {}
    return content


def _leaves(section: type[BaseModel], before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, field in section.model_fields.items():
        keys = (*before, name)
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _leaves(inner, keys)
        else:
            yield keys


def _put(content: dict[str, Any], keys: tuple[str, ...], value: object) -> None:
    for key in keys[:-1]:
        inner = content.get(key)
        content[key] = content = dict(inner) if isinstance(inner, dict) else {}
    content[keys[-1]] = value


def parsed(text: str) -> object:
    """An environment value: bool, int, float, list at commas, or text, whichever fits first (P-125)."""
    word = text.strip()
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    if re.fullmatch(r"[+-]?\d+", word):
        return int(word)
    try:
        return float(word)
    except ValueError:
        return [part.strip() for part in text.split(",")] if "," in text else text
