"""Memories for the same recorded trajectories: that of hansei, and simple memories for comparison."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hansei.client.lift.world import MadeUpWorld, SimulatedTrajectory

if TYPE_CHECKING:
    from hansei.client.client import Client

HANSEI = "hansei, offline"
NO_MEMORY = "no memory"
STRONGEST_SIMPLE_MEMORY = "successful trajectories without failing calls, BM25"
CHARS_OF_A_TOKEN = 4
TOP_K = 500

Memory = Callable[[str], Sequence[str]]
"""Returns the texts for a request, best first."""


def rank_by_bm25(texts: Sequence[str]) -> Memory:
    """Return a memory that ranks texts by the words of the request."""
    from rank_bm25 import BM25Okapi

    index = BM25Okapi([_split_words(text) for text in texts])

    def rank(request: str) -> list[str]:
        scores = index.get_scores(_split_words(request))
        return [texts[position] for position in sorted(range(len(texts)), key=lambda position: -scores[position])]

    return rank


def _split_words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower())


def cut_to_budget(texts: Sequence[str], tokens: int) -> list[str]:
    """Return the first texts that fit into the budget; the last one is cut."""
    chars = tokens * CHARS_OF_A_TOKEN
    served: list[str] = []
    for text in texts:
        if chars <= 0:
            break
        served.append(text[:chars])
        chars -= len(text) + 1
    return served


def learn_trajectories(client: Client, trajectories: Sequence[SimulatedTrajectory], dataset: str) -> int:
    """Learn the trajectories with the other trajectory of their task as sibling; return the newest revision."""
    revision = 0
    messages = [trajectory.build_message(number, dataset) for number, trajectory in enumerate(trajectories)]
    for message in messages:
        siblings = [other for other in messages if other.task_id == message.task_id and other.id != message.id]
        revision = client.learn(message, siblings=siblings).curation.revision
    return revision


def list_bullets(client: Client, dataset: str) -> list[str]:
    """Return the texts of a playbook."""
    return [bullet.content for bullet in client.playbooks.get(dataset=dataset).playbook.bullets]


def build_search_memory(client: Client, dataset: str, revision: int) -> Memory:
    """Return the memory that the search service is."""

    def rank(request: str) -> list[str]:
        found = client.search(dataset, request, top_k=TOP_K, min_confidence=0, min_revision=revision)
        return [result.bullet.content for result in found.results]

    return rank


def build_simple_memories(
    world: MadeUpWorld, trajectories: Sequence[SimulatedTrajectory], bullets: Sequence[str], seed: int
) -> dict[str, Memory]:
    """Return the memories that hansei is compared with."""
    errors: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for trajectory in trajectories:
        for call in trajectory.calls:
            if call.error:
                errors[call.tool][call.error] = None
    joined = [f"{tool}: {'; '.join(messages)}" for tool, messages in errors.items()]
    chance = random.Random(seed)
    return {
        NO_MEMORY: lambda request: [],
        "raw transcripts, BM25": rank_by_bm25([trajectory.render(is_clean=False) for trajectory in trajectories]),
        STRONGEST_SIMPLE_MEMORY: rank_by_bm25(
            [trajectory.render(is_clean=True) for trajectory in trajectories if trajectory.is_success]
        ),
        "errors joined for each tool, BM25": rank_by_bm25(joined),
        "random bullets of hansei": lambda request: chance.sample(list(bullets), len(bullets)),
        "perfect bullets by hand, BM25": rank_by_bm25([convention.rule for convention in world.conventions]),
    }
