"""Test the settings of all services in one value."""

from __future__ import annotations

import pytest

from allinone.compat import AppConfig, EmbeddingConfig, LLMConfig, PlaybookConfig, SearchConfig, load_config
from chassis.settings import BadSetting

VARIABLES = (
    "LLM_PROVIDER",
    "LLM_MODEL",
    "OPENAI_API_KEY",
    "EMBEDDING_MODEL",
    "PLAYBOOK_DATA_DIR",
    "SEARCH_ALPHA",
)


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(f"HANSEI_{name}", raising=False)


def test_settings_are_read_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:  # G-01, G-02
    assert load_config() == AppConfig(
        LLMConfig("openai", "gpt-4o-mini", ""),
        EmbeddingConfig("text-embedding-3-small", ""),
        PlaybookConfig("data/playbooks"),
        SearchConfig(0.5),
    )
    for name, value in zip(VARIABLES, ("offline", "m", "secret-key", "e", "elsewhere", "0.25"), strict=True):
        monkeypatch.setenv(name, value)
    changed = load_config()
    assert changed == AppConfig(
        LLMConfig("offline", "m", "secret-key"),
        EmbeddingConfig("e", "secret-key"),
        PlaybookConfig("elsewhere"),
        SearchConfig(0.25),
    )
    assert "secret-key" not in repr(changed)


def test_a_bad_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:  # G-10
    monkeypatch.setenv("SEARCH_ALPHA", "1.5")
    with pytest.raises(BadSetting, match="SEARCH_ALPHA"):
        load_config()
