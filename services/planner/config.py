"""Configuration of planning: `config/grace_config.yml`, overridden by `GRACE_<SECTION>_<KEY>` (P-123 to P-128)."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from chassis.logging import get_logger
from chassis.settings import BadSetting, Settings, SettingsFile, list_leaf_fields, list_variables, read_settings
from libs.llm.providers import find_provider
from services.planner.domain.answers import InterventionPolicy
from services.planner.domain.confidence import ConfidenceWeights
from services.planner.domain.replanning import ReplanManager
from services.planner.domain.thresholds import Thresholds

_log = get_logger(__name__)

PREFIX = "GRACE_"
DEFAULT_FILE = Path("config/grace_config.yml")


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class LLMRetry(_Section):
    """Retries of model calls; without a value, those of the shared settings."""

    max_retries: int | None = Field(default=None, ge=0, le=10)
    base_seconds: float | None = Field(default=None, ge=0)
    max_seconds: float | None = Field(default=None, ge=0)


class LLM(_Section):
    """The model that plans, reasons and evaluates (P-126, P-127); fields without a value follow the shared settings."""

    provider: str = ""
    model: str = ""
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int = Field(default=4096, ge=1)
    timeout_seconds: float | None = Field(default=None, gt=0)
    retry: LLMRetry = LLMRetry()

    def choose_model(self, shared_provider: str, shared_model: str) -> tuple[str, str]:
        """Return provider and model: its own, or the shared ones. Raises ProviderUnknown."""
        model = (find_provider(self.provider).default_model if self.provider else "") or shared_model
        return self.provider or shared_provider, self.model or model


class PlannerSection(_Section):
    """Making of plans (P-14, P-15)."""

    simple_threshold: float = Field(default=0.4, ge=0, le=1)
    llm_complexity: bool = False


class ExecutorSection(_Section):
    """Execution of plans."""

    max_parallel_steps: int = Field(default=8, ge=1, le=20)


class SearchSection(_Section):
    """Searches of the tool `rag_search` (P-29)."""

    limit: int = Field(default=5, ge=1, le=100)
    score_threshold: float = Field(default=0.35, ge=0, le=1)


class Confidence(_Section):
    """Measurement of confidence, and the thresholds for interventions (P-60, P-75, P-77)."""

    weights: ConfidenceWeights = ConfidenceWeights()
    thresholds: Thresholds = Thresholds()
    mode: Literal["adjusted", "guaranteed"] = "adjusted"


class Adjustment(_Section):
    """Adjustment of the thresholds by feedback (P-89); `audit_rate` is the share of steps selected for a label."""

    learning_rate: float = Field(default=0.05, gt=0, lt=1)
    min_samples: int = Field(default=10, ge=1)
    audit_rate: float = Field(default=0.10, ge=0, le=1)


class Guarantee(_Section):
    """The statistical guarantee of the mode `guaranteed`; `audit_rate` is the lowest share of audited steps."""

    alpha: float = Field(default=0.10, gt=0, lt=1)
    delta: float = Field(default=0.10, gt=0, lt=1)
    audit_rate: float = Field(default=0.02, gt=0, le=0.5)


class GraceConfig(Settings):
    """The whole configuration; every key has an effect (P-128)."""

    llm: LLM = LLM()
    planner: PlannerSection = PlannerSection()
    executor: ExecutorSection = ExecutorSection()
    search: SearchSection = SearchSection()
    confidence: Confidence = Confidence()
    adjustment: Adjustment = Adjustment()
    guarantee: Guarantee = Guarantee()
    intervention: InterventionPolicy = InterventionPolicy()
    replan: ReplanManager = ReplanManager()

    @classmethod
    def parse_variable(cls, text: str, field: FieldInfo) -> object:
        """Return a bool, an int, a float, a list split at commas, or the text, whichever fits first (P-125)."""
        word = text.strip()
        if word.lower() in ("true", "false"):
            return word.lower() == "true"
        if re.fullmatch(r"[+-]?\d+", word):
            return int(word)
        try:
            return float(word)
        except ValueError:
            return [part.strip() for part in text.split(",")] if "," in text else text


def load_grace_config(path: Path) -> GraceConfig:
    """Return the configuration from the file and the environment. Raises BadSetting (G-10, P-77).

    Log a file that is missing or broken, and environment variables that name no setting (P-123, P-124).
    """
    variables = {name for keys, _ in list_leaf_fields(GraceConfig) for name in list_variables(GraceConfig, keys)}
    for name in sorted(os.environ.keys() - variables):
        if name.startswith(PREFIX):
            _log.warning("unknown setting", variable=name)
    file = None
    try:
        file = SettingsFile.load(path)
    except BadSetting as error:
        is_unused = path == DEFAULT_FILE and not path.exists()
        log = _log.info if is_unused else _log.warning
        log("settings file cannot be used; not using it", file=path.name, error=str(error))
    return read_settings(GraceConfig, file)
