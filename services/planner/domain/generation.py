"""Answer a query from retrieved bullets: prompt context, answer, and citations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from chassis.quotations import build_notice, mark_quotations


class AnswerStyle(StrEnum):
    """The way a prompt is built: from the template of the dataset (P-114), or without one (P-118)."""

    CITED = "cited"
    PLAIN = "plain"


class AnswerStatus(StrEnum):
    """The outcome of a generation (R-01)."""

    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class RetrievedBullet:
    """A bullet as the generator reads it."""

    id: str
    section: str
    content: str


@dataclass(frozen=True, slots=True)
class Question:
    """A query with the retrieved bullets in rank order (P-113). `instruction` is a system message (P-122)."""

    query: str
    dataset: str
    bullets: Sequence[RetrievedBullet] = ()
    style: AnswerStyle = AnswerStyle.CITED
    instruction: str = ""


@dataclass(frozen=True, slots=True)
class GeneratedAnswer:
    """An answer and its reasoning."""

    text: str
    reasoning_steps: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class GenerationOutcome:
    """One attempt at a question: the fields of a trajectory (R-01, R-02), and the model."""

    query: str
    dataset: str
    generated_answer: str
    reasoning_steps: tuple[str, ...]
    used_bullet_ids: tuple[str, ...]
    cited_bullet_ids: tuple[str, ...]
    status: AnswerStatus
    error_message: str | None
    created_at: datetime
    model: str


def list_used_ids(bullets: Sequence[RetrievedBullet]) -> tuple[str, ...]:
    """Return the ids of all bullets, in order (P-119)."""
    return tuple(bullet.id for bullet in bullets)


def list_cited_ids(answer: str, bullets: Sequence[RetrievedBullet]) -> tuple[str, ...]:
    """Return the ids of the bullets that an answer cites as `[<id>]`, by first occurrence (P-120)."""
    positions = {bullet_id: answer.find(f"[{bullet_id}]") for bullet_id in list_used_ids(bullets)}
    return tuple(sorted((cited for cited, position in positions.items() if position >= 0), key=positions.__getitem__))


def format_cited_context(bullets: Sequence[RetrievedBullet]) -> str:
    """Return the bullets as entries `[<id>] [<section>] <content>`, separated by blank lines (P-115).

    Quotations are marked, and a notice before the entries says that they are data.
    """
    entries = [f"[{bullet.id}] [{bullet.section}] {mark_quotations(bullet.content)}" for bullet in bullets]
    return "\n\n".join(part for part in (build_notice("".join(entries)), *entries) if part)


def format_plain_context(bullets: Sequence[RetrievedBullet]) -> str:
    """Return the contents of the bullets, one per line (P-118), after a notice on quotations if there is one."""
    lines = [mark_quotations(bullet.content) for bullet in bullets]
    notice = build_notice("".join(lines))
    return "\n".join([notice, *lines] if notice else lines)
