"""Settings of search."""

from __future__ import annotations

import ipaddress
from typing import Literal

from pydantic import Field, SecretStr, field_validator

from chassis.settings import ServiceSettings, create_plain_field
from libs.embedding.settings import EmbeddingSettings
from services.search.domain.bm25 import VARIANTS, Variant

LUCENE_TOKENIZERS = ("mixed", "sudachi")


class SearchSettings(ServiceSettings, EmbeddingSettings):
    """Addresses, storage, tokenisation and ranking of search."""

    listen_address: str = "127.0.0.1:50053"
    """Address of the gRPC server, `host:port`. Port 0 takes a free one."""

    curator_addr: str = create_plain_field("127.0.0.1:50051")
    """Address of the curator, `host:port`."""

    search_database_url: str = Field("data/search.db", min_length=1)
    """Database of embeddings and document collections: a file name for SQLite, or a PostgreSQL URL."""

    search_alpha: float = create_plain_field(0.5, ge=0, le=1)
    """Weight of the vector score against BM25, 0 to 1."""

    search_alpha_scaling: bool = create_plain_field(True)
    """Multiply SEARCH_ALPHA by a factor of the embedding model: 0.4 for `hashing`; the share of Latin letters in the
    query for `minilm`, which knows only English. For `multilingual` raise it, up to 1, the more words of the query the
    texts lack. The weight of a request is never changed."""

    search_tokenizer: Literal["mixed", "whitespace", "ja_bigram", "sudachi"] = create_plain_field("mixed")
    """Tokeniser: `mixed` for English and Japanese, `whitespace` at white space only, `ja_bigram` with pairs of Japanese
    characters, `sudachi` like `mixed` with a dictionary of Japanese words; it needs the extra `sudachi`."""

    search_bm25: Literal["", "okapi", "lucene"] = create_plain_field("")
    """The BM25 formula: `okapi` (k1 1.5, b 0.75), or `lucene` (k1 0.9, b 0.6). Empty: the better one by measurement,
    `lucene` for the tokenisers `mixed` and `sudachi`, `okapi` for the others."""

    search_sentence_weight: float = create_plain_field(0.5, ge=0, le=1)
    """Additional weight, as a share of its weight, of a query word that occurs in the one sentence of a bullet or chunk
    with the most query words. Only for `lucene` and `minmax`; 0: none."""

    playbook_budget_tokens: int = Field(8_000, ge=1, le=1_000_000)
    """Tokens, by estimate, that the bullets served to a task may take in its prompt, where a caller names no number:
    `Recall`, `Answer`, `RunWorkflow` and the adapters serve a playbook that fits whole, else its best bullets."""

    search_fusion: Literal["minmax", "rrf"] = create_plain_field("minmax")
    """Fusion of both scores: `minmax`, a weighted sum of scaled scores, or `rrf`, reciprocal rank fusion."""

    search_snapshot_dir: str = "data/search-snapshots"
    """Folder of the snapshots of indexes, which a restart loads."""

    search_snapshot_seconds: float = Field(60.0, gt=0)
    """Seconds between snapshots of indexes that have changed."""

    search_compile_after_seconds: float = Field(1.0, ge=0)
    """Seconds from the start until the compiled loops are loaded. Until then NumPy computes the same, slower."""

    search_engine: Literal["built-in", "reference"] = create_plain_field("built-in")
    """Ranking engine. `reference` ranks with `faiss.IndexFlatIP` and `rank_bm25.BM25Okapi` themselves, for comparison:
    same results, a hundred times slower, no snapshots, no preselection."""

    search_exact_limit: int = Field(100_000, ge=0)
    """Candidates up to which all are scored. Beyond, FAISS preselects the nearest vectors, the best by BM25 are added,
    and the response sets `approximate`."""

    search_probes: int = Field(32, ge=1, le=4096)
    """Lists of FAISS's inverted file that a preselecting query searches; more lists find more and take longer."""

    search_threads: int = Field(2, ge=1, le=64)
    """Threads that score large indexes."""

    search_memory_mb: int = Field(1024, ge=1, le=1_048_576)
    """Memory of the indexes of playbooks, in MiB by estimate. Beyond, the least recently used ones are saved to their
    snapshots and dropped until they are used again."""

    replicas_address: str = ""
    """Address at which callers find this service, the same as theirs, to know which datasets other replicas own."""

    search_own_ip: str = ""
    """IP address at which callers reach this process, with the port of HANSEI_LISTEN_ADDRESS: `status.podIP` of a pod.
    Empty, or not among the addresses of SEARCH_ADDR: this process keeps indexes regardless of their owners."""

    search_release_seconds: float = Field(300.0, gt=0)
    """Seconds without use after which an index is saved and dropped, if another replica is the first owner of its
    dataset."""

    search_qdrant: str = ""
    """Qdrant for document collections with the backend QDRANT: a URL, or a folder for the small engine of the library,
    which is meant for trials. Empty: no Qdrant."""

    search_qdrant_api_key: SecretStr = SecretStr("")
    """Key of the Qdrant server."""

    search_pgvector: str = ""
    """PostgreSQL URL of a database with the extension `vector`, pgvector 0.8 or newer, for document collections with
    the backend PGVECTOR; it may be that of `HANSEI_SEARCH_DATABASE_URL`. Empty: no pgvector."""

    search_max_collections: int = Field(32, ge=1, le=10_000)
    """Document collections indexed in memory at once. Beyond, the least recently used index is closed."""

    @field_validator("search_own_ip")
    @classmethod
    def _check_ip(cls, value: str) -> str:
        if value:
            ipaddress.ip_address(value)
        return value

    @property
    def search_memory_bytes(self) -> int:
        """Return the limit of memory in bytes."""
        return self.search_memory_mb * 1024 * 1024

    @property
    def sentence_weight(self) -> float:
        """Return the weight of the best sentence, 0 for the specified formula of BM25."""
        return 0.0 if self.bm25.floored else self.search_sentence_weight

    @property
    def bm25(self) -> Variant:
        """Return the BM25 formula."""
        return VARIANTS[self.search_bm25 or ("lucene" if self.search_tokenizer in LUCENE_TOKENIZERS else "okapi")]
