"""Settings of the curator."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import Field

from chassis.settings import ServiceSettings, plain_field
from libs.embedding.settings import EmbeddingSettings
from libs.llm.settings import LLMSettings
from services.curator.domain.rules import DEFAULT_MAX_BULLETS, Policy


class CuratorSettings(ServiceSettings, LLMSettings, EmbeddingSettings):
    """Where the curator listens, where playbooks are kept, which model curates."""

    listen_address: str = "127.0.0.1:50051"
    """Where gRPC is served, `host:port`. Port 0 takes a free one."""

    max_concurrent_streams: int = Field(2048, ge=1)
    """Streaming calls of one gRPC service open at once; a change feed is one. More are refused."""

    playbook_data_dir: str = plain_field("data/playbooks", min_length=1)
    """Folder of the SQLite file that keeps the playbooks, when HANSEI_CURATOR_DATABASE_URL is empty."""

    curator_database_url: str = ""
    """Where playbooks are kept: `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/DATABASE`. Empty: the file
    `playbooks.db` in PLAYBOOK_DATA_DIR."""

    curator_sections_file: str = ""
    """YAML file of the sections of each dataset. Empty: `config/sections.yaml` where the service runs, else the one
    that is shipped."""

    curation_similarity: Literal["embedding", "words"] = plain_field("embedding")
    """By what lessons are compared: `embedding`, the vectors of the embedding model, or `words` alone."""

    curation_same_lesson: float | None = plain_field(None, gt=0, le=1)
    """Cosine of vectors from which two lessons are the same. Empty: what was measured for the bundled models; for
    another model the strictest of those."""

    prompts_dir: str = "prompts"
    """Folder with templates that replace the built-in prompt: `curator/<dataset>.txt`, `curator/default.txt`."""

    language: Literal["ja", "en"] = "ja"
    """Language of the built-in prompts."""

    curator_response_retention_days: float = Field(30.0, gt=0, le=3650)
    """Days for which the response to a request_id is stored, so that a repeated request changes nothing."""

    curator_max_bullets: int = Field(DEFAULT_MAX_BULLETS, ge=1, le=DEFAULT_MAX_BULLETS)
    """Most bullets of a dataset that sets no limit of its own; beyond it the least useful are evicted."""

    curator_feed_poll_seconds: float = Field(0.5, gt=0, le=60)
    """Seconds between looks for what other curator processes committed to the same database."""

    curator_watch_progress_seconds: float = Field(15.0, gt=0, le=30)
    """Seconds after which a quiet change feed shows that it is alive."""

    curator_watch_max_lag: int = Field(10_000, ge=1)
    """Revisions that a watcher may fall behind after it was up to date; beyond them its stream ends with
    `WATCHER_TOO_FAR_BEHIND`."""

    @property
    def database_url(self) -> str:
        """Where playbooks are kept."""
        return self.curator_database_url or f"sqlite:///{Path(self.playbook_data_dir) / 'playbooks.db'}"

    @property
    def default_policy(self) -> Policy:
        """The rules of a dataset that sets none."""
        return Policy(max_bullets=self.curator_max_bullets)

    @property
    def response_retention(self) -> timedelta:
        """Return the time for which the response to a request_id is stored."""
        return timedelta(days=self.curator_response_retention_days)
