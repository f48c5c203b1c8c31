"""What a playbook is: bullets in order, and the bounds that hold for every bullet wherever it comes from."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    computed_field,
    model_serializer,
)

from services.curator.domain.errors import InvalidBullet, InvalidDatasetName

MAX_ID_CHARS = 128
MAX_SECTION_CHARS = 256
MAX_CONTENT_CHARS = 20_000
MAX_KEYWORDS = 64
MAX_KEYWORD_CHARS = 256
MAX_SOURCES = 256
MAX_COUNTER = 2**31 - 1

_DATASET_NAME = re.compile(r"[A-Za-z0-9_-]+")
MAX_DATASET_CHARS = 128


def checked_dataset(name: str) -> str:
    """`name` if it is a dataset name (C-13), else InvalidDatasetName. At most 128 characters."""
    if len(name) > MAX_DATASET_CHARS or not _DATASET_NAME.fullmatch(name):
        raise InvalidDatasetName(name)
    return name


def utc_now() -> datetime:
    """The present as an aware UTC datetime."""
    return datetime.now(UTC)


class Source(BaseModel):
    """A trajectory a bullet was learned from, and the indexes of the steps it rests on."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    trajectory: str
    steps: tuple[int, ...] = ()


class Bullet(BaseModel):
    """One lesson of a playbook (C-01).

    `sources` (provenance) and `retired` (why the bullet is no longer served, empty = it is) go beyond C-01; they are
    written to JSON only when set, so a playbook that never used them keeps the plain form.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    section: str
    content: str
    searchable_text: str
    keywords: list[str] = []
    helpful: int = Field(default=0, ge=0)
    harmful: int = Field(default=0, ge=0)
    source_trajectory: str = ""
    sources: tuple[Source, ...] = ()
    retired: str = ""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def confidence_score(self) -> float:
        """Share of helpful votes in 0..1; 0.5 without votes (C-02)."""
        votes = self.helpful + self.harmful
        return self.helpful / votes if votes else 0.5

    @model_serializer(mode="wrap")
    def _without_unused_extensions(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        plain: dict[str, Any] = handler(self)
        for name in ("sources", "retired"):
            if not plain.get(name):
                plain.pop(name, None)
        return plain

    def having(self, **fields: Any) -> Bullet:
        """A copy with some fields replaced; the values are trusted (they come from checked bullets)."""
        return self.model_copy(update=fields)

    def from_trajectory(self, trajectory: str) -> bool:
        """Whether the bullet was learned, alone or among others, from `trajectory`."""
        return any(source.trajectory == trajectory for source in self.sources)


class PlaybookMetadata(BaseModel):
    """When a playbook was created and last changed (C-05)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    created_at: datetime = Field(default_factory=utc_now)
    updated_at: datetime = Field(default_factory=utc_now)


class Playbook(BaseModel):
    """Bullets in order, with their metadata (C-06)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    metadata: PlaybookMetadata = Field(default_factory=PlaybookMetadata)
    bullets: list[Bullet] = []


def checked_bullet(bullet: Bullet, field: str = "bullet") -> Bullet:
    """`bullet` if every part is within its bound, else InvalidBullet naming the part under `field`."""
    _bounded(f"{field}.id", bullet.id, MAX_ID_CHARS, required=True)
    _bounded(f"{field}.section", bullet.section, MAX_SECTION_CHARS)
    _bounded(f"{field}.content", bullet.content, MAX_CONTENT_CHARS)
    _bounded(f"{field}.searchable_text", bullet.searchable_text, MAX_CONTENT_CHARS)
    _bounded(f"{field}.source_trajectory", bullet.source_trajectory, MAX_SECTION_CHARS)
    _bounded(f"{field}.retired", bullet.retired, MAX_SECTION_CHARS)
    if len(bullet.keywords) > MAX_KEYWORDS:
        raise InvalidBullet(f"{field}.keywords", f"{len(bullet.keywords)} keywords, at most {MAX_KEYWORDS} are allowed")
    for index, keyword in enumerate(bullet.keywords):
        _bounded(f"{field}.keywords[{index}]", keyword, MAX_KEYWORD_CHARS)
    if len(bullet.sources) > MAX_SOURCES:
        raise InvalidBullet(f"{field}.sources", f"{len(bullet.sources)} sources, at most {MAX_SOURCES} are allowed")
    for name in ("helpful", "harmful"):
        if getattr(bullet, name) > MAX_COUNTER:
            raise InvalidBullet(f"{field}.{name}", f"{getattr(bullet, name)} is above {MAX_COUNTER}")
    return bullet


def _bounded(field: str, text: str, limit: int, *, required: bool = False) -> None:
    if required and not text:
        raise InvalidBullet(field, "must not be empty")
    problem = text_problem(text, limit)
    if problem:
        raise InvalidBullet(field, problem)


def text_problem(text: str, limit: int) -> str:
    """Why `text` cannot stand in a playbook; empty when it can."""
    if len(text) > limit:
        return f"{len(text)} characters, at most {limit} are allowed"
    if "\x00" in text:
        return "contains a NUL character, which no store keeps"
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        return "contains half of a surrogate pair, which is not a character"
    return ""


def fingerprint(content: str) -> str:
    """SHA-256 (hex) of the content with runs of white space made one: equal for exact duplicates only."""
    return hashlib.sha256(" ".join(content.split()).encode("utf-8", "surrogatepass")).hexdigest()


def shrunken_score(helpful: int, harmful: int) -> float:
    """(helpful + 1) / (helpful + harmful + 2): Laplace's rule of succession, so two votes do not beat two hundred.

    Ranking for eviction and retirement uses it; `Bullet.confidence_score` stays C-02.
    """
    return (helpful + 1) / (helpful + harmful + 2)


def estimated_tokens(text: str) -> int:
    """Tokens of `text`, estimated without a tokeniser: four ASCII characters, or one other character, are one."""
    ascii_characters = len(text.encode("ascii", "ignore"))
    return -(-ascii_characters // 4) + len(text) - ascii_characters
