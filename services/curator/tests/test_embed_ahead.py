"""New texts are embedded before their commit where that is soon done, and nothing depends on it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from chassis.errors import RequestIdReused
from services.curator.adapters.sql.store import SqlPlaybookStore
from services.curator.domain.curation import (
    DeltaContextItem,
    DeltaType,
    Insight,
    Proposal,
    Reflection,
    SectionDefinition,
)
from services.curator.domain.errors import SimilarityUnavailable, StoreUnavailable
from services.curator.domain.merge import new_texts
from services.curator.domain.playbook import MAX_CONTENT_CHARS
from services.curator.domain.snapshot import Snapshot
from services.curator.usecases.curate import CuratorAgent, Proposed
from services.curator.usecases.embed_ahead import (
    DEADLINE_SHARE,
    FAILED,
    MADE,
    PASSED_OVER,
    QUICK_REST_SECONDS,
    REST_SECONDS,
    TOKENS_AT_ONCE,
    TOKENS_OF_A_TEXT,
    EmbedAhead,
)
from services.curator.usecases.ports import Ticket
from services.curator.usecases.similarity import WordSimilarity
from services.curator.usecases.vectors import Embedded, Vectors

TICKET = Ticket("id", "ApplyDeltas", "digest")
TEXTS_AT_ONCE = TOKENS_AT_ONCE // TOKENS_OF_A_TEXT[0]


class Search:
    """A search service that notes what it is to embed. It fails with `error`, and answers when `open` is set."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.model = "all-MiniLM-L6-v2"
        self.error: Exception | None = None
        self.open = asyncio.Event()
        self.open.set()
        self.given_up = 0
        self.arrived = asyncio.Semaphore(0)

    async def embed(self, texts: Sequence[str]) -> Embedded:
        self.asked.append(list(texts))
        self.arrived.release()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        if self.error:
            raise self.error
        return Embedded(self.model, [np.ones(1, np.float32) for _ in texts])


class Requests:
    """Knows what became of a request."""

    def __init__(self, answer: bytes | Exception | None = None) -> None:
        self._answer = answer

    async def answer(self, ticket: Ticket) -> bytes | None:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def ahead(search: Search, seconds: float = 60, requests: Requests | None = None, **given: Any) -> EmbedAhead:
    return EmbedAhead(Vectors(search), requests or Requests(), seconds, **given)


def texts(count: int, name: str = "text") -> list[str]:
    return [f"{name} {number}" for number in range(count)]


def told() -> tuple[list[str], Callable[[str], None]]:
    outcomes: list[str] = []
    return outcomes, outcomes.append


async def test_each_text_is_embedded_once() -> None:
    search, (outcomes, count) = Search(), told()
    embed_ahead = ahead(search, count=count)
    await embed_ahead(["a", "b", "a"], TICKET)
    await embed_ahead(["b", "a"])
    await embed_ahead(["b", "c"])
    await embed_ahead([])
    assert (search.asked, outcomes) == ([["a", "b"], ["c"]], [MADE, MADE])


async def test_what_was_embedded_is_known_when_lessons_are_compared() -> None:
    search = Search()
    vectors = Vectors(search)
    await EmbedAhead(vectors, Requests(), 60)(["a"])
    await vectors.of(["a"])
    assert search.asked == [["a"]]


async def test_a_long_batch_does_not_wait() -> None:
    search, (outcomes, count) = Search(), told()
    embed_ahead = ahead(search, count=count)
    await embed_ahead(texts(TEXTS_AT_ONCE + 1), TICKET)
    assert (search.asked, outcomes) == ([], [PASSED_OVER])
    await embed_ahead(texts(TEXTS_AT_ONCE), TICKET)
    assert search.asked == [texts(TEXTS_AT_ONCE)]
    # What is known already does not count.
    await embed_ahead([*texts(TEXTS_AT_ONCE), "one more"], TICKET)
    assert search.asked[1:] == [["one more"]]


async def test_long_texts_count_for_more() -> None:
    search = Search()
    embed_ahead = ahead(search)
    long = ["締切" * 1_000, "deadline " * 1_000]
    await embed_ahead([*long, "short"])
    assert search.asked == []
    await embed_ahead(long)
    assert search.asked == [long]


async def test_many_writers_do_not_wait_for_each_other() -> None:
    search, (outcomes, count) = Search(), told()
    search.open.clear()
    embed_ahead = ahead(search, count=count)
    waiting = [asyncio.create_task(embed_ahead([text])) for text in texts(TEXTS_AT_ONCE)]
    for _ in waiting:
        await search.arrived.acquire()
    await embed_ahead(["one more"])
    assert outcomes == [PASSED_OVER]
    search.open.set()
    await asyncio.gather(*waiting)
    await embed_ahead(["one more"])
    assert search.asked[-1] == ["one more"]


async def test_a_service_that_does_not_answer_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    search, (outcomes, count) = Search(), told()
    search.open.clear()
    with caplog.at_level(logging.INFO):
        await ahead(search, 0.001, count=count)(["a"], TICKET)
    assert (search.given_up, outcomes) == (1, [FAILED])
    assert "no answer within 0.001 s" in caplog.text


@pytest.mark.parametrize("error", [SimilarityUnavailable("it is down"), ValueError("it is no vector")])
async def test_a_service_that_fails_is_left_alone_for_a_while(
    caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    search, (outcomes, count), now = Search(), told(), [100.0]
    search.error = error
    embed_ahead = ahead(search, clock=lambda: now[0], count=count)
    with caplog.at_level(logging.INFO):
        await embed_ahead(["a"])
        now[0] += REST_SECONDS - 0.1
        await embed_ahead(["b"])
        assert outcomes == [FAILED, PASSED_OVER]
        now[0] += 0.1
        await embed_ahead(["b"])
        assert outcomes == [FAILED, PASSED_OVER, FAILED]
        now[0] += REST_SECONDS
        search.error = None
        await embed_ahead(["a"])
        await embed_ahead(["b"])
    assert outcomes == [FAILED, PASSED_OVER, FAILED, MADE, MADE]
    cause = "it is down" if isinstance(error, SimilarityUnavailable) else "it is no vector"
    assert [record.message for record in caplog.records] == [
        f"new texts are embedded after their commit for now: {cause}"
    ]


async def test_an_embedder_that_takes_no_time_is_not_asked_but_another_one_may_take_its_place() -> None:
    search, now = Search(), [100.0]
    search.model = "hashing-v1-1536"
    embed_ahead = ahead(search, clock=lambda: now[0])
    await embed_ahead(["a"])
    await embed_ahead(["b"])
    assert search.asked == [["a"]]
    now[0] += QUICK_REST_SECONDS
    search.model = "all-MiniLM-L6-v2"
    for text in ("b", "c", "d"):
        await embed_ahead([text])
    assert search.asked == [["a"], ["b"], ["c"], ["d"]]


@pytest.mark.parametrize(("left", "asked"), [(None, True), (DEADLINE_SHARE * 2.0, True), (DEADLINE_SHARE * 1.9, False)])
async def test_a_caller_in_a_hurry_does_not_wait(left: float | None, asked: bool) -> None:
    search = Search()
    await ahead(search, 2, remaining=lambda: left)(["a"])
    assert bool(search.asked) is asked


@pytest.mark.parametrize("answer", [b"stored", RequestIdReused("id"), StoreUnavailable("the database is away")])
async def test_nothing_is_embedded_for_what_is_done_or_will_be_refused(answer: bytes | Exception) -> None:
    search = Search()
    embed_ahead = ahead(search, requests=Requests(answer))
    for text in texts(TEXTS_AT_ONCE + 1):
        await embed_ahead([text], TICKET)
    assert search.asked == []


async def test_a_caller_that_goes_away_takes_its_request_along() -> None:
    search = Search()
    search.open.clear()
    embed_ahead = ahead(search)
    for given_up in (1, 2):
        caller = asyncio.create_task(embed_ahead(texts(TEXTS_AT_ONCE)))
        await search.arrived.acquire()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert search.given_up == given_up


async def test_with_no_time_to_wait_nothing_is_embedded() -> None:
    search = Search()
    await ahead(search, 0)(["a"])
    assert search.asked == []


def proposal(kind: DeltaType, content: str, **said: Any) -> Proposal:
    return Proposal(DeltaContextItem(type=kind, section="s", bullet_id="b", content=content, reasoning=""), **said)


class Proposing:
    """A curator that proposes what it is given."""

    model = "m"

    def __init__(self, *proposals: Proposal) -> None:
        self._proposed = Proposed(proposals)

    async def propose(
        self, reflection: Reflection, playbook: Snapshot, sections: Sequence[SectionDefinition]
    ) -> Proposed:
        return self._proposed


class NoSections:
    """No dataset has sections of its own."""

    def load(self, dataset: str) -> Sequence[SectionDefinition]:
        return ()


async def test_what_a_model_words_is_embedded_before_it_is_committed(store: SqlPlaybookStore) -> None:
    given: list[tuple[Sequence[str], int]] = []

    async def embed_ahead(texts: Sequence[str]) -> None:
        given.append((texts, (await store.load("d")).revision))

    curator = Proposing(proposal("ADD", "worded"), proposal("DELETE", ""))
    agent = CuratorAgent(curator, store, NoSections(), WordSimilarity(), embed_ahead)
    lesson = Insight("r", "e", "c", "a", "a lesson")
    assert (await agent.run(Reflection((lesson,), trajectory_id="run"), "d")).revision == 1
    assert given == [(["worded"], 0)]


def test_texts_are_new_that_would_enter_the_playbook() -> None:
    long = "x" * (MAX_CONTENT_CHARS + 1)
    proposals = [
        proposal("ADD", "added"),
        proposal("UPDATE", "reworded"),
        proposal("ADD", "waits", waits="for a person"),
        proposal("DELETE", "removed"),
        proposal("ADD", "declined", declined="no lesson"),
        proposal("ADD", "known", confirms="b"),
        *(proposal("ADD", content) for content in ("", " \n", long, "\x00")),
    ]
    assert new_texts(proposals) == ["added", "reworded", "waits"]
