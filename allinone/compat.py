"""The in-process API that the specification names: the settings of all services in one value (G-01, G-02)."""

from __future__ import annotations

from dataclasses import dataclass, field

from chassis.settings import read_settings
from services.curator.settings import CuratorSettings
from services.search.settings import SearchSettings


@dataclass(frozen=True, slots=True)
class LLMConfig:
    """The chat model."""

    provider: str
    model: str
    api_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class EmbeddingConfig:
    """The embedding model."""

    model: str
    api_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class PlaybookConfig:
    """The store of the playbooks."""

    data_dir: str


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """The ranking; `alpha` is the weight of the vector score."""

    alpha: float


@dataclass(frozen=True, slots=True)
class AppConfig:
    """The settings that the services share or that a caller must know."""

    llm: LLMConfig
    embedding: EmbeddingConfig
    playbook: PlaybookConfig
    search: SearchConfig


def load_config() -> AppConfig:
    """Return the settings as the environment has them at this call. Raises BadSetting (G-10)."""
    curator, search = read_settings(CuratorSettings), read_settings(SearchSettings)
    key = curator.openai_api_key.get_secret_value()
    return AppConfig(
        LLMConfig(curator.llm_provider, curator.llm_model, key),
        EmbeddingConfig(curator.embedding_model, key),
        PlaybookConfig(curator.playbook_data_dir),
        SearchConfig(search.search_alpha),
    )
