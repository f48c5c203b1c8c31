"""What the planner needs of models and of search: protocols that the adapters fulfil."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from services.planner.domain.results import Hit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's reply: its text, the tokens it took, and their price in millionths of a US dollar."""

    text: str
    tokens: int = 0
    cost_micro_usd: int = 0


class Model(Protocol):
    """A chat model with its temperature and length already chosen."""

    async def complete(self, system: str, prompt: str) -> Completion:
        """The reply to a prompt. Errors: any; the callers here have a way on without a model."""


class Embedder(Protocol):
    """Turns texts into vectors."""

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row a text."""


class SearchBackend(Protocol):
    """Where `rag_search` looks (P-27)."""

    async def list_collections(self, prefix: str = "") -> Sequence[str]:
        """Names of what can be searched, those that begin with `prefix`."""

    async def search(self, query: str, collection: str, limit: int, score_threshold: float) -> Sequence[Hit]:
        """Hits with scores in 0..1, best first."""


async def collections_within(backend: SearchBackend, prefix: str) -> list[str]:
    """What of a backend may be searched by what sees only names with this prefix. Errors: the backend's.

    A backend without tenants takes no prefix (P-27), and one of an earlier release does not heed it.
    """
    listed = await (backend.list_collections(prefix) if prefix else backend.list_collections())
    return [name for name in listed if name.startswith(prefix)]
