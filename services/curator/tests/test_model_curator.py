"""The operations of a curating model, from its reply to the playbook."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from libs.llm.client import LLMClient
from services.curator.adapters.sql.repository import SqlPlaybookStore
from services.curator.domain.curation import SELF_REPORT, Lesson, Reflection, SectionDefinition
from services.curator.domain.log import Stamp, StoredBullet
from services.curator.domain.playbook import Bullet
from services.curator.domain.review import PendingState
from services.curator.domain.snapshot import Snapshot
from services.curator.domain.word_similarity import WordSimilarity
from services.curator.prompts.builder import CuratorPromptBuilder
from services.curator.usecases import model_curator
from services.curator.usecases import similarity as similarity_sources
from services.curator.usecases.corroboration import WAITS_ALREADY, WAITS_FOR_A_PERSON, WAITS_FOR_A_SECOND
from services.curator.usecases.curate import Curation, CuratorAgent
from services.curator.usecases.model_curator import ModelCurator
from services.curator.usecases.model_operations import NOT_SHOWN, UNDECIDED, WAITING_CANNOT_BE_EDITED
from services.curator.usecases.similarity import WordSource

FIRST = Lesson("r", "e", "c", "a", "Check the refund policy before cancelling.", steps=(2, 3))
SECOND = Lesson("r", "e", "c", "a", "Ask for the user id alone.", steps=(7,))


class NoSections:
    async def read(self, dataset: str) -> Sequence[SectionDefinition]:
        return []


class ScriptedModel:
    """A chat model that replies with these operations, and keeps the messages."""

    def __init__(self, *operations: dict[str, Any]) -> None:
        self.reply = json.dumps({"operations": operations})
        self.messages: list[Any] = []

    def invoke(self, messages: Any, /, **options: Any) -> Any:
        raise NotImplementedError

    async def ainvoke(self, messages: Any, /, **options: Any) -> Any:
        self.messages = list(messages)
        return type("Message", (), {"content": self.reply})()


async def curate(
    store: SqlPlaybookStore,
    trajectory: str,
    *operations: dict[str, Any],
    lessons: tuple[Lesson, ...] = (FIRST, SECOND),
    signal: str = "reward",
    model: ScriptedModel | None = None,
) -> Curation:
    by_words = WordSource()
    client = LLMClient(model or ScriptedModel(*({"reasoning": "why", "lesson": 1, **item} for item in operations)))
    curator = ModelCurator(client, CuratorPromptBuilder("nowhere", "en"), "gpt", by_words)
    reflection = Reflection(lessons, (), trajectory, "cancel it", signal=signal, model="gpt")
    return await CuratorAgent(curator, store, NoSections(), by_words).run(reflection, "d")


async def bullets(store: SqlPlaybookStore) -> list[Bullet]:
    return (await store.load("d")).bullet_list


def add(content: str, lesson: int = 1, section: str = "s") -> dict[str, Any]:
    return {"op": "ADD", "lesson": lesson, "section": section, "content": content}


def list_sources(bullet: Bullet) -> list[tuple[str, tuple[int, ...]]]:
    return [(source.trajectory, source.steps) for source in bullet.sources]


async def test_each_bullet_rests_on_the_steps_of_its_own_lesson(store: SqlPlaybookStore) -> None:
    curation = await curate(store, "run-1", add("one"), add("two", lesson=2, section=" "))
    assert curation.result.summary == "ADD: 2, UPDATE: 0, DELETE: 0"
    first, second = await bullets(store)
    assert (first.id, list_sources(first)) == ("s-00001", [("run-1", (2, 3))])
    assert (second.section, list_sources(second)) == ("others", [("run-1", (7,))])


AIMED = replace(FIRST, target='call.tool == "cancel" && !called("read_policy")')
OTHER = replace(FIRST, target='call.tool == "cancel" && repeats() > 0')


async def test_a_bullet_gets_the_target_of_its_lesson_and_keeps_the_first_one(store: SqlPlaybookStore) -> None:
    await curate(store, "run-1", add("one"), add("two", lesson=2), lessons=(AIMED, SECOND))
    first, second = await bullets(store)
    assert first.target is not None
    assert (first.target.expression, first.target.mode, second.target) == (AIMED.target, "shadow", None)
    confirm = {"op": "CONFIRM", "id": second.id}
    rewrite = {"op": "REWRITE", "id": first.id, "content": "one, in other words"}
    await curate(store, "run-2", confirm, rewrite, lessons=(OTHER,))
    first, second = await bullets(store)
    assert first.content == "one, in other words"
    assert [bullet.target and bullet.target.expression for bullet in (first, second)] == [AIMED.target, OTHER.target]


async def test_a_confirmed_bullet_keeps_its_text_and_gets_a_source(store: SqlPlaybookStore) -> None:
    await curate(store, "run-1", add("one"), {"op": "SKIP", "lesson": 2})
    curation = await curate(store, "run-2", {"op": "CONFIRM", "id": "[s-00001]"}, {"op": "SKIP", "lesson": 2})
    assert [operation.applied for operation in curation.operations] == [False, False]
    assert curation.operations[0].skipped_reason == "the same lesson is already there: s-00001"
    assert curation.operations[1].skipped_reason == "skipped by the curator: why"
    [bullet] = await bullets(store)
    assert (bullet.content, list_sources(bullet)) == ("one", [("run-1", (2, 3)), ("run-2", (2, 3))])
    [revision] = await store.list_revisions("d", None, 1)
    assert "s-00001 confirmed" in revision.summary


async def test_rewrite_merge_and_retire_are_deltas(store: SqlPlaybookStore) -> None:
    await curate(store, "run-1", add("one"), add("two", lesson=2), add("three", lesson=2), add("four"))
    curation = await curate(
        store,
        "run-2",
        {"op": "REWRITE", "id": "s-00001", "content": "one, and when"},
        {"op": "MERGE", "lesson": 2, "ids": ["s-00002", "s-00003"], "into": "s-00003", "content": "two and three"},
        {"op": "RETIRE", "id": "s-00004"},
    )
    assert curation.result.summary == "ADD: 0, UPDATE: 2, DELETE: 2"
    first, merged = await bullets(store)
    assert (first.content, list_sources(first)) == ("one, and when", [("run-1", (2, 3)), ("run-2", (2, 3))])
    assert (merged.id, merged.content) == ("s-00003", "two and three")
    assert list_sources(merged) == [("run-1", (7,)), ("run-2", (7,))]


async def test_edits_of_hidden_or_missing_bullets_are_declined(store: SqlPlaybookStore) -> None:
    await curate(store, "run-1", add("one"), add("two", lesson=2))
    curation = await curate(
        store,
        "run-2",
        {"op": "CONFIRM", "id": "nope"},
        {"op": "REWRITE", "id": "nope", "content": "x"},
        {"op": "MERGE", "ids": ["nope"], "into": "s-00001", "content": "x"},
        {"op": "RETIRE", "id": "nope"},
        {"op": "ADD", "lesson": 9, "section": "s", "content": "x"},
    )
    reasons = [operation.skipped_reason for operation in curation.operations]
    assert reasons == [*[NOT_SHOWN] * 4, "the reply names lesson 9, and there are 2", UNDECIDED]
    assert [bullet.content for bullet in await bullets(store)] == ["one", "two"]


class WatchedSimilarity(WordSimilarity):
    """Compares by words, and keeps the threads that search the nearest bullet."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []

    def find_nearest(self, content: str, bullets: Sequence[StoredBullet]) -> tuple[StoredBullet | None, float]:
        self.threads.append(threading.current_thread())
        return super().find_nearest(content, bullets)


async def test_unseen_bullets_are_compared_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_curator, "PROMPT_BULLETS", 1)
    stamp = Stamp(1, datetime(2026, 1, 1, tzinfo=UTC))
    contents = (FIRST.key_insight, SECOND.key_insight)
    stored = [
        StoredBullet(slot, Bullet(id=str(slot), section="s", content=text, searchable_text=text), stamp, stamp, 1)
        for slot, text in enumerate(contents)
    ]
    similarity = WatchedSimilarity()
    monkeypatch.setattr(similarity_sources, "WORDS", similarity)
    client = LLMClient(ScriptedModel({"reasoning": "why", **add(SECOND.key_insight)}))
    curator = ModelCurator(client, CuratorPromptBuilder("nowhere", "en"), "gpt", WordSource())
    reflection = Reflection((FIRST,), (), "run-1", "cancel it", signal="reward", model="gpt")
    edits = await curator.propose(reflection, Snapshot("d", 1, stored), [])
    assert [proposal.confirmed_id for proposal in edits.proposals] == ["1"]
    assert similarity.threads
    assert threading.main_thread() not in similarity.threads


async def test_a_waiting_lesson_is_confirmed_by_its_id(store: SqlPlaybookStore) -> None:
    first = await curate(store, "run-1", add("Look at the policy."), lessons=(FIRST,), signal=SELF_REPORT)
    assert [change.review_reason for change in first.pending] == [WAITS_FOR_A_SECOND]
    model = ScriptedModel({"reasoning": "same", "lesson": 1, "op": "CONFIRM", "id": "w-1"})
    same = await curate(store, "run-1", lessons=(SECOND,), signal=SELF_REPORT, model=model)
    assert [operation.skipped_reason for operation in same.operations] == [WAITS_ALREADY]
    assert "[w-1] Look at the policy." in model.messages[1][1]
    second = await curate(store, "run-2", lessons=(SECOND,), signal=SELF_REPORT, model=model)
    assert [operation.applied for operation in second.operations] == [True]
    [bullet] = await bullets(store)
    assert (bullet.content, list_sources(bullet)) == ("Look at the policy.", [("run-1", (2, 3)), ("run-2", (7,))])
    assert await store.list_pending_changes("d", [PendingState.WAITING], "", 10) == []
    [approved] = await store.list_pending_changes("d", [PendingState.APPROVED], "", 10)
    assert (approved.decided_by, approved.decision_reason) == ("curator", "confirmed by trajectory run-2")


async def test_a_waiting_lesson_cannot_be_edited(store: SqlPlaybookStore) -> None:
    await curate(store, "run-1", add("Look at the policy."), lessons=(FIRST,), signal=SELF_REPORT)
    curation = await curate(store, "run-2", {"op": "RETIRE", "id": "w-1"}, lessons=(SECOND,))
    assert [operation.skipped_reason for operation in curation.operations] == [WAITING_CANNOT_BE_EDITED]


async def test_the_agents_own_word_removes_nothing_without_a_person(store: SqlPlaybookStore) -> None:
    await curate(store, "run-1", add("one"), add("two", lesson=2))
    merge = {"op": "MERGE", "ids": ["s-00002"], "into": "s-00001", "content": "both"}
    curation = await curate(store, "run-2", merge, lessons=(FIRST,), signal=SELF_REPORT)
    assert [change.review_reason for change in curation.pending] == [WAITS_FOR_A_PERSON] * 2
    assert [bullet.content for bullet in await bullets(store)] == ["one", "two"]
