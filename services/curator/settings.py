"""Settings of the curator."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import Field

from chassis.settings import ServiceSettings, create_plain_field
from libs.embedding.settings import EmbeddingSettings
from libs.llm.settings import LLMSettings
from libs.prompts.language import LanguageSetting
from services.curator.domain.policy import DEFAULT_MAX_BULLETS, Policy


class CuratorSettings(ServiceSettings, LLMSettings, EmbeddingSettings):
    """The settings of the curator."""

    listen_address: str = "127.0.0.1:50051"
    """Address of gRPC, `host:port`. Port 0 selects a free port."""

    max_concurrent_streams: int = Field(16_384, ge=1)
    """Streaming calls of one gRPC service open at once; for example change feeds. More are refused."""

    playbook_data_dir: str = create_plain_field("data/playbooks", min_length=1)
    """Folder of the SQLite file with the playbooks, if HANSEI_CURATOR_DATABASE_URL is empty."""

    curator_database_url: str = ""
    """Database of the playbooks: `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/DATABASE`. Empty: the file
    `playbooks.db` in PLAYBOOK_DATA_DIR."""

    curator_sections_file: str = ""
    """YAML file of the sections of each dataset. Empty: `config/sections.yaml` in the working directory, else
    the bundled one."""

    curation_similarity: Literal["embedding", "words"] = create_plain_field("embedding")
    """Comparison of lessons: `embedding`, by the vectors of the embedding model, or `words`, by shared words."""

    curation_same_lesson: float | None = create_plain_field(None, gt=0, le=1)
    """Lowest similarity (cosine) at which two lessons count as the same. Empty: the measured value of a bundled model;
    for another model the highest of these values."""

    prompts_dir: str = "prompts"
    """Folder with templates that replace the built-in prompt: `curator/<dataset>.txt`, `curator/default.txt`."""

    language: LanguageSetting = "auto"
    """Language of the built-in prompt: `ja`, `en`, or `auto` for the language of the lessons."""

    curator_response_retention_days: float = Field(30.0, gt=0, le=3650)
    """Days for which the response to a request_id is stored, so that a repeated request changes nothing."""

    curator_log_days: float = Field(0, ge=0, le=36500)
    """Days for which the log keeps every revision; 0: forever. Snapshots and diffs of older revisions are then gone,
    and a revocation no longer reverts their edits. Bullets, votes and the newest revision stay."""

    curator_max_bullets: int = Field(DEFAULT_MAX_BULLETS, ge=1, le=DEFAULT_MAX_BULLETS)
    """Bullets of a dataset without a limit of its own; beyond them the least useful are evicted."""

    curator_feed_poll_seconds: float = Field(0.5, gt=0, le=60)
    """Seconds between two searches for commits of other curator processes to the same database."""

    curator_watch_progress_seconds: float = Field(15.0, gt=0, le=30)
    """Seconds without a revision after which a change feed sends Progress."""

    curator_watch_max_lag: int = Field(10_000, ge=1)
    """Number of revisions by which a watcher may fall behind after it was up to date; beyond them its stream ends with
    `WATCHER_TOO_FAR_BEHIND`."""

    @property
    def database_url(self) -> str:
        """Return the URL of the database."""
        return self.curator_database_url or f"sqlite:///{Path(self.playbook_data_dir) / 'playbooks.db'}"

    @property
    def default_policy(self) -> Policy:
        """Return the policy of a dataset that has none."""
        return Policy(max_bullets=self.curator_max_bullets)

    @property
    def log_retention(self) -> timedelta | None:
        """Return the time for which the log keeps every revision; None is forever."""
        return timedelta(days=self.curator_log_days) if self.curator_log_days else None

    @property
    def response_retention(self) -> timedelta:
        """Return the time for which the response to a request_id is stored."""
        return timedelta(days=self.curator_response_retention_days)
