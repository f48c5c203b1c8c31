"""Playbooks and their bullets, and the bounds of every bullet."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    computed_field,
    model_serializer,
)

from chassis.json_texts import has_surrogates
from chassis.targets.errors import InvalidTarget
from chassis.targets.target import Target
from services.curator.domain.errors import InvalidBullet, InvalidDatasetName

MAX_ID_CHARS = 128
MAX_SECTION_CHARS = 256
MAX_CONTENT_CHARS = 20_000
MAX_KEYWORDS = 64
MAX_KEYWORD_CHARS = 256
MAX_SOURCES = 256
MAX_COUNTER = 2**31 - 1
DEFAULT_SECTION = "others"
"""The section of bullets of which nothing names one."""

_DATASET_NAME = re.compile(r"[A-Za-z0-9_-]+")
MAX_DATASET_CHARS = 128


def validate_dataset_name(name: str) -> str:
    """Return the name of a dataset, at most 128 characters. Raises InvalidDatasetName (C-13)."""
    if len(name) > MAX_DATASET_CHARS or not _DATASET_NAME.fullmatch(name):
        raise InvalidDatasetName(name)
    return name


def utc_now() -> datetime:
    """Return the present time, aware, UTC."""
    return datetime.now(UTC)


class Source(BaseModel):
    """A trajectory from which a bullet was learned, and the indexes of the steps that support it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    trajectory: str
    steps: tuple[Annotated[int, Field(ge=0, le=MAX_COUNTER)], ...] = ()


TargetMode = Literal["shadow", "advise", "ask", "deny"]


class BulletTarget(BaseModel):
    """The condition of a tool call that repeats the mistake of a bullet, and the mode of the guard.

    Evidence does not change a `pinned` mode.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    expression: str
    mode: TargetMode = "shadow"
    pinned: bool = False


class Bullet(BaseModel):
    """One lesson of a playbook (C-01).

    `sources`, `retired` (the reason why the bullet is not served; empty: it is) and `target` go beyond C-01. JSON has
    them only if they are set, so that a playbook without them has the plain form.
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
    target: BulletTarget | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def confidence_score(self) -> float:
        """Return the share of helpful votes in 0..1; 0.5 without votes (C-02)."""
        votes = self.helpful + self.harmful
        return self.helpful / votes if votes else 0.5

    @model_serializer(mode="wrap")
    def _remove_unused_extensions(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        plain: dict[str, Any] = handler(self)
        for name in ("sources", "retired", "target"):
            if not plain.get(name):
                plain.pop(name, None)
        return plain

    def replace_fields(self, **fields: Any) -> Bullet:
        """Return a copy with some fields replaced; the values are not validated."""
        return self.model_copy(update=fields)

    def is_from_trajectory(self, trajectory: str) -> bool:
        """Return True if `trajectory` is a source of the bullet."""
        return any(source.trajectory == trajectory for source in self.sources)


def _check_time(moment: datetime) -> datetime:
    """Return a time that has a form in UTC. Raises ValueError, for example for the year 1 east of Greenwich."""
    try:
        moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("must be in the years 1 to 9999 in UTC") from error
    return moment


Time = Annotated[datetime, AfterValidator(_check_time)]


class PlaybookMetadata(BaseModel):
    """The times of creation and of the last change of a playbook (C-05)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    created_at: Time = Field(default_factory=utc_now)
    updated_at: Time = Field(default_factory=utc_now)


class Playbook(BaseModel):
    """Bullets in order, with their metadata (C-06)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    metadata: PlaybookMetadata = Field(default_factory=PlaybookMetadata)
    bullets: list[Bullet] = []


def validate_bullet(bullet: Bullet, field: str = "bullet") -> Bullet:
    """Return `bullet`. Raises InvalidBullet, which names the part of `field` that breaks a bound."""
    _validate_text(f"{field}.id", bullet.id, MAX_ID_CHARS, required=True)
    _validate_text(f"{field}.section", bullet.section, MAX_SECTION_CHARS)
    _validate_text(f"{field}.content", bullet.content, MAX_CONTENT_CHARS)
    _validate_text(f"{field}.searchable_text", bullet.searchable_text, MAX_CONTENT_CHARS)
    _validate_text(f"{field}.source_trajectory", bullet.source_trajectory, MAX_SECTION_CHARS)
    _validate_text(f"{field}.retired", bullet.retired, MAX_SECTION_CHARS)
    if len(bullet.keywords) > MAX_KEYWORDS:
        raise InvalidBullet(f"{field}.keywords", f"{len(bullet.keywords)} keywords, at most {MAX_KEYWORDS} are allowed")
    for index, keyword in enumerate(bullet.keywords):
        _validate_text(f"{field}.keywords[{index}]", keyword, MAX_KEYWORD_CHARS)
    if len(bullet.sources) > MAX_SOURCES:
        raise InvalidBullet(f"{field}.sources", f"{len(bullet.sources)} sources, at most {MAX_SOURCES} are allowed")
    for index, source in enumerate(bullet.sources):
        _validate_text(f"{field}.sources[{index}].trajectory", source.trajectory, MAX_SECTION_CHARS)
    for name in ("helpful", "harmful"):
        if getattr(bullet, name) > MAX_COUNTER:
            raise InvalidBullet(f"{field}.{name}", f"{getattr(bullet, name)} is above {MAX_COUNTER}")
    if bullet.target is not None:
        validate_target(bullet.target.expression, f"{field}.target.expression")
    return bullet


def validate_target(expression: str, field: str) -> None:
    """Compile the condition of a target. Raises InvalidTarget, which names `field` and the position."""
    try:
        Target(expression)
    except InvalidTarget as error:
        raise InvalidTarget(expression, error.rule, field) from error


def _validate_text(field: str, text: str, limit: int, *, required: bool = False) -> None:
    if required and not text:
        raise InvalidBullet(field, "must not be empty")
    problem = find_text_problem(text, limit)
    if problem:
        raise InvalidBullet(field, problem)


def find_text_problem(text: str, limit: int) -> str:
    """Return the bound that `text` breaks, or ""."""
    if len(text) > limit:
        return f"{len(text)} characters, at most {limit} are allowed"
    if "\x00" in text:
        return "contains a NUL character, which the database cannot store"
    if has_surrogates(text):
        return "contains half of a surrogate pair, which is not a character"
    return ""


def hash_content(content: str) -> str:
    """Return the SHA-256 (hex) of the content with normalized white space: equal for exact duplicates only."""
    return hashlib.sha256(" ".join(content.split()).encode("utf-8", "surrogatepass")).hexdigest()


def compute_shrunken_score(helpful: int, harmful: int) -> float:
    """Return the confidence by Laplace's rule of succession, for eviction: two votes do not beat two hundred."""
    return (helpful + 1) / (helpful + harmful + 2)
