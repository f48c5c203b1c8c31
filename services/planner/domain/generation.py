"""Answering a query from retrieved bullets: what goes in, what comes out, and which bullets an answer cites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

EMPTY_KNOWLEDGE = "(知識ベースは空です)"


class AnswerStyle(StrEnum):
    """How the prompt is built: from the dataset's template (P-114), or bare (P-118)."""

    CITED = "cited"
    PLAIN = "plain"


class AnswerStatus(StrEnum):
    """How answering ended (R-01)."""

    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class RetrievedBullet:
    """What the generator reads of a bullet."""

    id: str
    section: str
    content: str


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, with the retrieved bullets in rank order (P-113). `instruction` is a system message (P-122)."""

    query: str
    dataset: str
    bullets: Sequence[RetrievedBullet] = ()
    style: AnswerStyle = AnswerStyle.CITED
    instruction: str = ""


@dataclass(frozen=True, slots=True)
class GeneratedAnswer:
    """A text and the thoughts that led to it."""

    text: str
    reasoning_steps: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class TokenUse:
    """Tokens that an answer took, as the provider counted them, and US dollars; None when the price is not known."""

    input_tokens: int
    output_tokens: int
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class GenerationOutcome:
    """One attempt at a question; the fields of a trajectory (R-01, R-02), the model, and what the attempt took."""

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
    usage: TokenUse | None
    """None when there was no model, or it did not say."""


def used_ids(bullets: Sequence[RetrievedBullet]) -> tuple[str, ...]:
    """The ids of all given bullets, in order (P-119)."""
    return tuple(bullet.id for bullet in bullets)


def cited_ids(answer: str, bullets: Sequence[RetrievedBullet]) -> tuple[str, ...]:
    """The ids of given bullets that stand as `[<id>]` in `answer`, by first occurrence (P-120)."""
    places = {bullet_id: answer.find(f"[{bullet_id}]") for bullet_id in used_ids(bullets)}
    return tuple(sorted((bullet_id for bullet_id, place in places.items() if place >= 0), key=places.__getitem__))


def cited_context(bullets: Sequence[RetrievedBullet]) -> str:
    """The bullets as entries `[<id>] [<section>] <content>`, one blank line between them (P-115)."""
    entries = [f"[{bullet.id}] [{bullet.section}] {bullet.content}" for bullet in bullets]
    return "\n\n".join(entries) if entries else EMPTY_KNOWLEDGE


def plain_context(bullets: Sequence[RetrievedBullet]) -> str:
    """The contents of the bullets, one per line (P-118)."""
    return "\n".join(bullet.content for bullet in bullets)
