"""A playbook that fits the budget of tokens is served whole, a larger one by rank."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from hansei.client import Client
from hansei.client.errors import InvalidArgument
from hansei.playbook.v1.playbook_pb2 import DELTA_TYPE_ADD, Delta
from tests.support import systems

SMALL, LARGE = 30, 100
LONG_TEXT_TOKENS = 400
BUDGET = 8_000


@pytest.fixture
def client(system: systems.System) -> Iterator[Client]:
    with Client(system.address) as client:
        yield client


def create_dataset(client: Client, texts: list[str]) -> tuple[str, int]:
    """Return the name of a new dataset with these bullets, and its revision."""
    dataset = f"budget-{uuid.uuid4().hex[:12]}"
    deltas = [Delta(type=DELTA_TYPE_ADD, section="git", content=text) for text in texts]
    return dataset, client.playbooks.apply_deltas(dataset=dataset, deltas=deltas).revision


def test_a_playbook_that_fits_is_served_whole_and_a_search_returns_ten(client: Client) -> None:
    texts = [f"Lesson {number} about branch {number}." for number in range(SMALL)]
    dataset, revision = create_dataset(client, texts)
    assert len(client.recall(dataset, "session", "branch 7", min_revision=revision).results) == SMALL
    assert len(client.ask(dataset, "branch 7", min_revision=revision).search_results) == SMALL
    assert len(client.search(dataset, "branch 7").results) == 10
    assert len(client.recall(dataset, "session", "branch 7", top_k=3).results) == 3


def test_of_a_larger_playbook_the_best_bullets_are_served(client: Client) -> None:
    filler = "word " * (LONG_TEXT_TOKENS * 4 // 5)
    dataset, revision = create_dataset(client, [f"Branch {number}: {filler}" for number in range(LARGE)])
    served = client.recall(dataset, "session", "branch 7", min_revision=revision).results
    assert BUDGET // (LONG_TEXT_TOKENS + 20) <= len(served) <= BUDGET // LONG_TEXT_TOKENS
    best = [result.bullet.id for result in client.search(dataset, "branch 7", top_k=len(served)).results]
    assert [result.bullet.id for result in served] == best
    few = client.search(dataset, "branch 7", budget_tokens=3 * (LONG_TEXT_TOKENS + 20))
    assert [result.bullet.id for result in few.results] == best[:3]


def test_a_negative_budget_is_refused(client: Client) -> None:
    with pytest.raises(InvalidArgument, match=r"query\.budget_tokens"):
        client.search("any", "branch", budget_tokens=-1)
