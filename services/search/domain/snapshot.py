"""What is kept of a followed playbook, so that a restart goes on where the last run stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from services.search.domain.bullet import Bullet
from services.search.domain.frozen import FrozenIndex


@dataclass(frozen=True, slots=True)
class IndexSnapshot:
    """A playbook's index at one revision, with its order and the bullets that have a place but are not served.

    ``index`` is None while there never was a bullet to serve.
    """

    revision: int
    order: Sequence[str]
    hidden: Sequence[Bullet]
    index: FrozenIndex[Bullet] | None


class Snapshots(Protocol):
    """Keeps one snapshot of each playbook. Both methods may take long and are called from a thread."""

    def load(self, dataset: str) -> IndexSnapshot | None:
        """The snapshot; None if there is none, or none that can be used."""
        ...

    def save(self, dataset: str, snapshot: IndexSnapshot) -> None:
        """Keep this one from now on; when that fails, the one before is still kept."""
        ...
