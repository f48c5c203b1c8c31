"""Compare, merge and decline lessons with the offline curator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.curator.adapters.sql.repository import SqlPlaybookStore
from services.curator.domain.curation import (
    OFFLINE_MODEL,
    SELF_REPORT,
    Evaluation,
    Lesson,
    Proposal,
    Reflection,
    SectionDefinition,
)
from services.curator.domain.lessons import contains, is_attested, merge_lessons
from services.curator.domain.log import Stamp, StoredBullet
from services.curator.domain.playbook import Bullet, Source
from services.curator.domain.review import PendingState
from services.curator.domain.snapshot import Snapshot
from services.curator.domain.upkeep import sort_for_eviction
from services.curator.domain.word_similarity import WORDS
from services.curator.usecases.corroboration import QUOTATION_WAITS, WAITS_ALREADY, WAITS_FOR_A_SECOND
from services.curator.usecases.curate import Curation, CuratorAgent
from services.curator.usecases.rule_curator import GENERAL_ADVICE, RuleCurator
from services.curator.usecases.similarity import WordSource

LIMIT = 'Before `http GET`: space requests out, or `http GET` fails with "HTTP 429 Too Many Requests".'
REPAIRED = LIMIT + " Repair: call `wait` first."
NO_EMAIL = 'Before `git commit`: check what it needs, or `git commit` fails with "fatal: no email was given".'
NO_NAME = 'Before `git commit`: check what it needs, or `git commit` fails with "fatal: no name was given".'
TAKEN_JA = "`sqlite INSERT`の前に、現在の状態を読む。怠ると`sqlite INSERT`は「UNIQUE constraint failed」で失敗する。"
REPAIRED_JA = TAKEN_JA + "修正: `sql`を直す。"
QUERY = "What do all open orders come to, in EUR?"
RECIPE = f'For "{QUERY}": call `http` with {{"path": "/v1/orders?cursor=9"}}.'
HABIT = "Check every number of an answer against a result."


def insight(text: str, *steps: int) -> Lesson:
    return Lesson("r", "e", "c", "a", text, steps=steps, section="s")


def bullet(number: int, content: str, helpful: int = 0, harmful: int = 0) -> StoredBullet:
    stamp = Stamp(1, datetime(2026, 1, 1, tzinfo=UTC))
    remaining = Bullet(
        id=f"s-{number:05}", section="s", content=content, searchable_text=content, helpful=helpful, harmful=harmful
    )
    return StoredBullet(number, remaining, stamp, stamp, 1)


async def proposals(reflection: Reflection, *bullets: StoredBullet) -> Sequence[Proposal]:
    return (await RuleCurator(WordSource()).propose(reflection, Snapshot("d", 1, bullets), [])).proposals


class NoSections:
    async def read(self, dataset: str) -> Sequence[SectionDefinition]:
        return []


async def curate(
    store: SqlPlaybookStore, trajectory: str, *texts: str, signal: str = "reward", model: str = OFFLINE_MODEL
) -> Curation:
    reflection = Reflection(
        tuple(insight(text, 1) for text in texts),
        trajectory_id=trajectory,
        query=QUERY,
        signal=signal,
        model=model,
    )
    by_words = WordSource()
    return await CuratorAgent(RuleCurator(by_words), store, NoSections(), by_words).run(reflection, "d")


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (NO_EMAIL, NO_NAME),
        (LIMIT, LIMIT.replace("http GET", "http POST")),
        (TAKEN_JA, TAKEN_JA.replace("UNIQUE", "CHECK")),
    ],
)
def test_lessons_on_different_messages_are_different(first: str, other: str) -> None:
    assert WORDS.score(first, other) == 0.0


@pytest.mark.parametrize(("first", "other"), [(LIMIT, REPAIRED), (TAKEN_JA, REPAIRED_JA), (HABIT, HABIT)])
def test_the_same_message_of_the_same_tool_is_the_same_lesson(first: str, other: str) -> None:
    assert WORDS.is_same(first, other)
    assert WORDS.is_same(other, first)


@pytest.mark.parametrize(
    "do", ['call `deploy` again when it says "another deploy is running"', "use a page size of 100 for the orders API"]
)
def test_do_and_do_not_are_different_lessons(do: str) -> None:
    assert WORDS.contradicts(do, f"never {do}")
    assert not WORDS.is_same(do, f"never {do}")


def test_a_negation_inside_quotes_does_not_negate() -> None:
    assert not WORDS.contradicts(LIMIT, LIMIT.replace("429 Too Many", "not"))


@given(st.text(), st.text())
def test_similarity_is_symmetric_and_a_share(first: str, other: str) -> None:
    assert WORDS.score(first, other) == pytest.approx(WORDS.score(other, first))
    assert 0.0 <= WORDS.score(first, other) <= 1.0


def test_a_text_contains_another_when_nothing_is_lost() -> None:
    assert contains(REPAIRED, LIMIT)
    assert not contains(LIMIT, REPAIRED)
    assert not contains(LIMIT, LIMIT)
    assert not contains(REPAIRED, LIMIT.replace("space requests out", "ask for less"))


def test_a_lesson_is_supported_by_the_response_of_a_tool() -> None:
    assert is_attested(LIMIT, QUERY)
    assert is_attested(TAKEN_JA, QUERY)
    assert not is_attested(HABIT, QUERY)
    assert not is_attested(RECIPE, QUERY)


def test_each_lesson_of_a_trajectory_appears_once_in_its_better_wording() -> None:
    remaining = merge_lessons([insight(LIMIT, 2), insight(HABIT, 9), insight(REPAIRED, 4), insight("  ")], WORDS)
    assert [(item.key_insight, item.steps) for item in remaining] == [(REPAIRED, (2, 4)), (HABIT, (9,))]


@pytest.mark.parametrize(("known_text", "better"), [(LIMIT, REPAIRED), (TAKEN_JA, REPAIRED_JA)])
async def test_a_known_repair_is_an_update_also_of_a_confirmed_bullet(known_text: str, better: str) -> None:
    reflection = Reflection((insight(better, 4),), trajectory_id="b", signal="reward")
    [proposal] = await proposals(reflection, bullet(1, known_text, helpful=3))
    assert (proposal.delta.type, proposal.delta.bullet_id, proposal.delta.content) == ("UPDATE", "s-00001", better)
    similarity = f"the same tool and message, cosine of words {WORDS.compute_cosine(better, known_text):.2f}"
    assert proposal.delta.reasoning == f"says all that s-00001 says and more; the same lesson ({similarity})"


async def test_a_worse_wording_confirms(store: SqlPlaybookStore) -> None:
    await curate(store, "a", REPAIRED)
    curation = await curate(store, "b", LIMIT)
    assert [operation.skipped_reason for operation in curation.operations] == [
        "the same lesson is already there: s-00001"
    ]
    similarity = f"the same tool and message, cosine of words {WORDS.compute_cosine(LIMIT, REPAIRED):.2f}"
    assert curation.operations[0].delta.reasoning == f"confirms s-00001; the same lesson ({similarity})"
    [remaining] = (await store.load("d")).bullet_list
    assert (remaining.content, [source.trajectory for source in remaining.sources]) == (REPAIRED, ["a", "b"])


async def test_lessons_on_different_messages_stand_side_by_side(store: SqlPlaybookStore) -> None:
    await curate(store, "a", NO_EMAIL)
    await curate(store, "b", NO_EMAIL, NO_NAME)
    assert [bullet.content for bullet in (await store.load("d")).bullet_list] == [NO_EMAIL, NO_NAME]


async def test_rules_put_neither_recipes_nor_general_advice_into_a_playbook(store: SqlPlaybookStore) -> None:
    curation = await curate(store, "a", RECIPE, HABIT, LIMIT, model=OFFLINE_MODEL)
    assert [operation.skipped_reason for operation in curation.operations] == [GENERAL_ADVICE, GENERAL_ADVICE, ""]
    assert [bullet.content for bullet in (await store.load("d")).bullet_list] == [LIMIT]


async def test_without_a_reliable_signal_nothing_is_learned_at_once(store: SqlPlaybookStore) -> None:
    await curate(store, "b", LIMIT, signal=SELF_REPORT)
    await curate(store, "a", HABIT, signal=SELF_REPORT, model="m")
    assert (await store.load("d")).bullet_list == []
    waiting = await store.list_pending_changes("d", [PendingState.WAITING], "", 10)
    reasons = {change.proposal.delta.content: change.review_reason for change in waiting}
    assert reasons == {LIMIT: QUOTATION_WAITS, HABIT: WAITS_FOR_A_SECOND}


async def test_a_second_trajectory_confirms_a_pending_lesson(store: SqlPlaybookStore) -> None:
    await curate(store, "a", HABIT, signal=SELF_REPORT, model="m")
    again = await curate(store, "a", HABIT, signal=SELF_REPORT, model="m")
    assert [operation.skipped_reason for operation in again.operations] == [WAITS_ALREADY]
    assert (await store.load("d")).bullet_list == []
    second = await curate(store, "b", HABIT, signal=SELF_REPORT, model="m")
    assert (
        second.operations[0].delta.reasoning == "a second trajectory teaches it (cosine of words 1.00); the first was a"
    )
    [remaining] = (await store.load("d")).bullet_list
    assert (remaining.content, [source.trajectory for source in remaining.sources]) == (HABIT, ["a", "b"])
    assert await store.list_pending_changes("d", [PendingState.WAITING], "", 10) == []


async def test_without_a_reliable_signal_nothing_is_removed_or_reworded() -> None:
    use = "Use a page size of 100 for the orders API"
    avoid = "Never use a page size of 100 for the orders API"
    blamed = (Evaluation("s-00001", "harmful"),)
    trusted = Reflection((insight(avoid),), blamed, "b")
    doubtful = Reflection((insight(avoid), insight(f"{HABIT} Compute it twice.")), blamed, "b", signal=SELF_REPORT)
    known_text = (bullet(1, use, harmful=3), bullet(2, HABIT))
    assert [proposal.delta.type for proposal in await proposals(trusted, *known_text)] == ["DELETE", "ADD"]
    assert [(proposal.delta.type, proposal.confirmed_id) for proposal in await proposals(doubtful, *known_text)] == [
        ("ADD", ""),
        ("ADD", "s-00002"),
    ]


def test_lessons_of_one_trajectory_are_evicted_before_lessons_of_two() -> None:
    twice, once, praised = bullet(1, NO_EMAIL), bullet(2, NO_NAME), bullet(3, HABIT, helpful=1)
    sources = (Source(trajectory="a"), Source(trajectory="b"))
    twice = replace(twice, bullet=twice.bullet.replace_fields(sources=sources))
    once = replace(once, bullet=once.bullet.replace_fields(sources=sources[:1]))
    assert [item.bullet.id for item in sort_for_eviction([twice, praised, once])] == ["s-00002", "s-00001", "s-00003"]
