"""Settings of search."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from chassis.settings import ServiceSettings, plain_field
from libs.embedding.settings import EmbeddingSettings
from services.search.domain.bm25 import VARIANTS, Variant

OF_OUR_OWN = ("mixed", "sudachi")


class SearchSettings(ServiceSettings, EmbeddingSettings):
    """Where search listens, whom it follows, how it reads text and how it weighs what it finds."""

    listen_address: str = "127.0.0.1:50053"
    """Where gRPC is served, `host:port`. Port 0 takes a free one."""

    curator_addr: str = plain_field("127.0.0.1:50051")
    """Where the owner of the playbooks is, `host:port`."""

    search_database_url: str = Field("data/search.db", min_length=1)
    """Where embeddings and document collections are kept: a file name for SQLite, or a PostgreSQL URL."""

    search_alpha: float = plain_field(0.5, ge=0, le=1)
    """Weight of the vector score against BM25, 0 to 1 (S-38)."""

    search_alpha_scaling: bool = plain_field(True)
    """Whether the default weight is scaled by what the embedder is worth: `hashing` by 0.4, `minilm`, which knows only
    English, by the query's share of Latin letters. A weight in a request is never scaled."""

    search_tokenizer: Literal["mixed", "whitespace", "ja_bigram", "sudachi"] = plain_field("mixed")
    """How text becomes terms: `mixed` reads English and Japanese, `whitespace` is the reference, `ja_bigram` cuts
    Japanese into pairs (S-27). `sudachi` is `mixed` with a dictionary of Japanese words; it needs that extra."""

    search_bm25: Literal["", "okapi", "lucene"] = plain_field("")
    """The BM25 formula: `okapi` as specified (k1 1.5, b 0.75), or `lucene` (k1 0.9, b 0.6). Empty: what measured best,
    `lucene` with the tokenisers `mixed` and `sudachi`, and `okapi` with the specified tokenisers."""

    search_fusion: Literal["minmax", "rrf"] = plain_field("minmax")
    """How both scores become one: `minmax` as specified, or `rrf`, reciprocal rank fusion."""

    search_snapshot_dir: str = "data/search-snapshots"
    """Folder with a snapshot of each index, from which a restart goes on."""

    search_snapshot_seconds: float = Field(60.0, gt=0)
    """Seconds between snapshots of indexes that have changed."""

    search_compile_after_seconds: float = Field(1.0, ge=0)
    """Seconds after the start at which the compiled loops are loaded. Until then NumPy answers, the same and slower."""

    search_engine: Literal["built-in", "reference"] = plain_field("built-in")
    """Who ranks. `reference` ranks with `faiss.IndexFlatIP` and `rank_bm25.BM25Okapi` themselves: it answers the same,
    a hundred times slower, keeps no snapshots and never preselects. It is there to compare with."""

    search_exact_limit: int = Field(100_000, ge=0)
    """Candidates up to which every one is scored. Beyond, FAISS preselects the nearest vectors, the best by BM25 join
    them, and the response says so."""

    search_probes: int = Field(32, ge=1, le=4096)
    """Lists of FAISS's inverted file that a preselecting query looks into; more find more and take longer."""

    search_threads: int = Field(2, ge=1, le=64)
    """Threads that score large indexes."""

    search_max_datasets: int = Field(128, ge=1, le=10_000)
    """Playbooks followed at once; the one not asked for longest makes room."""

    search_qdrant: str = ""
    """Where Qdrant is, for document collections with the backend QDRANT: a URL, or a folder for the library's own small
    engine, which is meant for trying out. Empty: there is none."""

    search_qdrant_api_key: SecretStr = SecretStr("")
    """Key of the Qdrant server."""

    search_max_collections: int = Field(32, ge=1, le=10_000)
    """Document collections indexed in memory at once; the one not asked for longest makes room."""

    @property
    def bm25(self) -> Variant:
        """The BM25 formula that is meant."""
        return VARIANTS[self.search_bm25 or ("lucene" if self.search_tokenizer in OF_OUR_OWN else "okapi")]
