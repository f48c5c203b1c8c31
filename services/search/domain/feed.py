"""What happens to a playbook, as search hears of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from libs.embedding.model import Float32s
from services.search.domain.bullet import Bullet

Vectors = Mapping[str, Float32s]
"""The vectors of texts, shape (d,), float32, of the model that the feed was asked for."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a revision made of one bullet; `after` is None when it is gone.

    ``position`` is its place in the playbook after the revision; before it, when it is gone.
    """

    bullet_id: str
    after: Bullet | None
    position: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All bullets of a playbook at one revision, in order, with the vectors that their owner sent."""

    revision: int
    bullets: Sequence[Bullet]
    vectors: Vectors = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Committed:
    """One revision and what it changed, with the vectors that the owner of the playbook sent."""

    revision: int
    changes: Sequence[Change]
    vectors: Vectors = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Alive:
    """Nothing happened beyond this revision."""

    revision: int


Event = Snapshot | Committed | Alive


class Feed(Protocol):
    """The change feed of the playbooks' owner."""

    def watch(self, dataset: str, after: int | None, held: int = 0) -> AsyncIterator[Event]:
        """Yield every revision after `after`, in order and without end; None begins with a snapshot.

        A snapshot brings no vectors of bullets that did not change after the revision `held`.

        Raises `HanseiError` when the feed breaks, `OutOfRange` when it does not know a revision as late as `after`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Reordering:
    """What a revision does to the order of a playbook: who leaves, last place first, and who comes, first place first.

    ``moves`` says that somebody comes before somebody else who stays, so that not only the end changes.
    """

    gone: Sequence[Change]
    added: Sequence[Change]
    moves: bool

    def apply(self, ids: list[str]) -> None:
        """Change the order, at the cost of the change if it concerns the end."""
        for change in self.gone:
            if change.position < len(ids) and ids[change.position] == change.bullet_id:
                del ids[change.position]
            else:
                ids.remove(change.bullet_id)
        for change in self.added:
            ids.insert(change.position, change.bullet_id)


def reordering(count: int, knows: Callable[[str], bool], changes: Sequence[Change]) -> Reordering:
    """What `changes` do to the order of `count` bullets, which are those that `knows` says it knows."""
    gone = sorted((c for c in changes if c.after is None and knows(c.bullet_id)), key=lambda c: -c.position)
    added = sorted((c for c in changes if c.after is not None and not knows(c.bullet_id)), key=lambda c: c.position)
    left = count - len(gone)
    return Reordering(gone, added, any(change.position < left + place for place, change in enumerate(added)))
