"""Run curations with scripted curators on a real store."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from chassis.errors import RequestIdReused, Unavailable
from libs.llm.client import LLMClient
from libs.storage.idempotency import IdempotencyKey
from services.curator.adapters.sql.repository import SqlPlaybookStore
from services.curator.domain.curation import (
    SELF_REPORT,
    DeltaContextItem,
    DeltaType,
    Evaluation,
    Lesson,
    Proposal,
    Reflection,
    SectionDefinition,
)
from services.curator.domain.errors import InvalidDatasetName
from services.curator.domain.playbook import Bullet
from services.curator.domain.review import PendingChange
from services.curator.domain.snapshot import Snapshot
from services.curator.prompts.builder import CuratorPromptBuilder
from services.curator.usecases.curate import ATTEMPTS, Curation, Curator, CuratorAgent, ProposedEdits
from services.curator.usecases.model_curator import ModelCurator
from services.curator.usecases.rule_curator import RuleCurator
from services.curator.usecases.similarity import WordSource

INSIGHT = Lesson("r", "e", "c", "a", "Set the identity before the first commit.", steps=(2,))
KEY = IdempotencyKey("id-1", "Curate", b"digest")


class NoSections:
    """A dataset without sections."""

    async def read(self, dataset: str) -> Sequence[SectionDefinition]:
        return []


BY_WORDS = WordSource()


class ScriptedCurator:
    """A curator that returns the given proposals, or raises the given error."""

    model = "scripted"

    def __init__(self, *answers: ProposedEdits | Exception | Callable[[Snapshot], ProposedEdits]) -> None:
        self.answers = list(answers)
        self.requests: list[Snapshot] = []

    async def propose(
        self,
        reflection: Reflection,
        playbook: Snapshot,
        sections: Sequence[SectionDefinition],
        waiting: Sequence[PendingChange],
    ) -> ProposedEdits:
        self.requests.append(playbook)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, ProposedEdits) else answer(playbook)


class ScriptedModel:
    """A scripted chat model with the interface of LangChain's models."""

    def __init__(self, *replies: object) -> None:
        self.replies = list(replies)
        self.requests: list[Any] = []

    def invoke(self, messages: Any, /, **options: Any) -> Any:
        raise NotImplementedError

    async def ainvoke(self, messages: Any, /, **options: Any) -> Any:
        self.requests.append(messages)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return type("Message", (), {"content": reply})()


def agent_of(curator: Curator, store: SqlPlaybookStore) -> CuratorAgent:
    return CuratorAgent(curator, store, NoSections(), BY_WORDS)


def delta(kind: DeltaType, content: str = "", bullet_id: str | None = None) -> Proposal:
    item = DeltaContextItem(type=kind, section="general", bullet_id=bullet_id, content=content, reasoning="why")
    return Proposal(item)


def edits_of(*proposals: Proposal) -> ProposedEdits:
    return ProposedEdits(proposals)


def reflection(*insights: Lesson, votes: Sequence[Evaluation] = (), **fields: Any) -> Reflection:
    return Reflection(insights or (INSIGHT,), tuple(votes), **{"trajectory_id": "run-1", **fields})


def encode(curation: Curation) -> bytes:
    return f"{curation.revision} {curation.result.summary}".encode()


async def bullets(store: SqlPlaybookStore) -> list[Bullet]:
    return (await store.load("d")).bullet_list


async def with_one(store: SqlPlaybookStore) -> None:
    agent = agent_of(ScriptedCurator(edits_of(delta("ADD", "one"))), store)
    await agent.run(reflection(trajectory_id="run-0"), "d")


UNSAVED = "ADD: 0, UPDATE: 0, DELETE: 0"


async def test_a_curation_is_reported_and_saved(store: SqlPlaybookStore) -> None:  # C-33 to C-36, C-60
    await with_one(store)
    curator = ScriptedCurator(
        edits_of(delta("ADD", "two"), delta("DELETE", bullet_id="nope"), delta("UPDATE", "1", "gene-00001"))
    )
    votes = [Evaluation("gene-00001", "helpful"), Evaluation("gene-00001", "helpful"), Evaluation("x", "harmful")]
    curation = await agent_of(curator, store).run(reflection(votes=votes), "d")
    assert (curation.result.bullets_before, curation.result.bullets_after) == (1, 2)
    assert curation.result.summary == "ADD: 1, UPDATE: 1, DELETE: 1"
    assert [proposal.type for proposal in curation.result.deltas] == ["ADD", "DELETE", "UPDATE"]
    assert [operation.applied for operation in curation.operations] == [True, False, True]
    assert [outcome.applied for outcome in curation.votes] == [True, True, False]
    assert (curation.saved, curation.error, curation.revision, curation.model) == (True, "", 2, "scripted")
    assert [(bullet.content, bullet.helpful) for bullet in await bullets(store)] == [("1", 2), ("two", 0)]
    [revision, _] = await store.list_revisions("d", None, 10)
    assert (revision.origin.source_trajectory, revision.origin.model) == ("run-1", "scripted")


async def test_without_insights_no_model_is_called_and_votes_count(store: SqlPlaybookStore) -> None:  # C-37
    await with_one(store)
    curator = ScriptedCurator()
    empty = Reflection((), (Evaluation("gene-00001", "harmful"),), "run-1")
    curation = await agent_of(curator, store).run(empty, "d")
    assert (curator.requests, curation.result.deltas, curation.saved, curation.revision) == ([], [], True, 2)
    assert [bullet.harmful for bullet in await bullets(store)] == [1]


@pytest.mark.parametrize("failure", [Unavailable("the model does not answer"), RuntimeError("secret detail")])
async def test_a_failing_model_changes_nothing(store: SqlPlaybookStore, failure: Exception) -> None:  # C-38, C-42, C-79
    await with_one(store)
    votes = [Evaluation("gene-00001", "helpful")]
    agent = agent_of(ScriptedCurator(failure, edits_of(delta("ADD", "two"))), store)
    first = await agent.run_once(reflection(votes=votes), "d", KEY, encode)
    assert first == f"1 {UNSAVED}".encode()
    assert (await store.load("d")).revision == 1
    assert [bullet.helpful for bullet in await bullets(store)] == [0]
    again = await agent.run_once(reflection(votes=votes), "d", KEY, encode)
    assert again == b"2 ADD: 1, UPDATE: 0, DELETE: 0"


async def test_an_unknown_error_is_reported_without_its_text(store: SqlPlaybookStore) -> None:
    agent = agent_of(ScriptedCurator(RuntimeError("secret detail")), store)
    curation = await agent.run(reflection(), "d")
    assert (curation.saved, curation.error) == (False, "curation failed: RuntimeError")


async def test_a_damaged_store_is_reported_and_not_changed(store: SqlPlaybookStore) -> None:  # C-40, C-80
    await with_one(store)
    connection = sqlite3.connect(store.name)
    with connection:
        connection.execute("UPDATE bullet SET body = 'x'")
    connection.close()
    fresh = SqlPlaybookStore(f"sqlite:///{store.name}")
    await fresh.open()
    curator = ScriptedCurator()
    curation = await agent_of(curator, fresh).run(reflection(), "d")
    await fresh.close()
    assert (curation.result.bullets_before, curation.result.bullets_after) == (0, 0)
    assert (curation.saved, curator.requests, curation.result.summary) == (False, [], UNSAVED)
    assert curation.error.startswith("Playbook file is corrupt: d")


async def test_a_failed_save_is_reported(store: SqlPlaybookStore) -> None:  # C-41
    await with_one(store)
    connection = sqlite3.connect(store.name)
    with connection:
        connection.execute("CREATE TRIGGER no BEFORE INSERT ON revision BEGIN SELECT RAISE(ABORT, 'no'); END")
    connection.close()
    curation = await agent_of(ScriptedCurator(edits_of(delta("ADD", "two"))), store).run(reflection(), "d")
    assert (curation.saved, curation.result.bullets_before, curation.result.bullets_after) == (False, 1, 1)
    assert curation.error
    assert [bullet.content for bullet in await bullets(store)] == ["one"]


async def test_a_failed_commit_is_reported_in_the_response(store: SqlPlaybookStore) -> None:  # C-41, idea 3
    """The response was encoded inside the transaction; it does not count when the disk does not take it."""

    def raise_full(_: object) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorname = "SQLITE_FULL"
        raise error

    await with_one(store)
    agent = agent_of(ScriptedCurator(*[edits_of(delta("ADD", "two"))] * 2), store)
    event.listen(store.database.write_engine, "commit", raise_full)
    refused = json.loads(await agent.run_once(reflection(), "d", KEY, summary_of))
    event.remove(store.database.write_engine, "commit", raise_full)
    assert refused["saved"] is False
    assert "is full" in refused["error"]
    assert [bullet.content for bullet in await bullets(store)] == ["one"]
    assert json.loads(await agent.run_once(reflection(), "d", KEY, summary_of)) == {"saved": True, "error": ""}
    assert [bullet.content for bullet in await bullets(store)] == ["one", "two"]


def summary_of(curation: Curation) -> bytes:
    return json.dumps({"saved": curation.saved, "error": curation.error}).encode()


async def test_an_invalid_dataset_name_raises(store: SqlPlaybookStore) -> None:  # C-43
    with pytest.raises(InvalidDatasetName, match="Invalid dataset name: 'a b'"):
        await agent_of(ScriptedCurator(), store).run(reflection(), "a b")


async def test_a_repeated_request_calls_no_model_and_changes_nothing(store: SqlPlaybookStore) -> None:  # idea 3
    curator = ScriptedCurator(edits_of(delta("ADD", "one")))
    agent = agent_of(curator, store)
    first = await agent.run_once(reflection(), "d", KEY, encode, payload=b"asked")
    again = await agent.run_once(reflection(), "d", KEY, encode, payload=b"asked")
    assert (first, again, len(curator.requests)) == (b"1 ADD: 1, UPDATE: 0, DELETE: 0", first, 1)
    assert await store.find_request("d", "id-1", "Curate") == (b"asked", first)
    with pytest.raises(RequestIdReused):
        await agent.run_once(reflection(), "d", IdempotencyKey("id-1", "Curate", b"other"), encode)


async def test_a_prepared_request_is_looked_up_again_only_if_the_dataset_has_changed(store: SqlPlaybookStore) -> None:
    looked_up: list[IdempotencyKey] = []
    stored_response = store.find_response

    async def count_reads(key: IdempotencyKey) -> bytes | None:
        looked_up.append(key)
        return await stored_response(key)

    store.find_response = count_reads  # type: ignore[method-assign]
    curator = ScriptedCurator(edits_of(delta("ADD", "one")))
    agent = agent_of(curator, store)
    first = await agent.run_once(reflection(), "d", KEY, encode, prepared_revision=0)
    assert (looked_up, len(curator.requests)) == ([], 1)
    again = await agent.run_once(reflection(), "d", KEY, encode, prepared_revision=0)
    assert (looked_up, len(curator.requests)) == ([KEY], 1), "a replay asks no model"
    assert again == first
    with pytest.raises(RequestIdReused):
        await agent.run_once(reflection(), "d", IdempotencyKey("id-1", "Curate", b"other"), encode, prepared_revision=0)


async def test_votes_of_a_trajectory_count_once_over_several_curations(store: SqlPlaybookStore) -> None:  # idea 2
    await with_one(store)
    agent = agent_of(ScriptedCurator(), store)
    for _ in range(3):
        await agent.run(Reflection((), (Evaluation("gene-00001", "helpful"),), "run-1"), "d")
    assert [bullet.helpful for bullet in await bullets(store)] == [1]


async def meddle(store: SqlPlaybookStore, content: str) -> None:
    agent = agent_of(ScriptedCurator(edits_of(delta("UPDATE", content, "gene-00001"))), store)
    await agent.run(reflection(trajectory_id=f"meddler-{content}"), "d")


class CuratorWithConcurrentEdits(ScriptedCurator):
    """A curator during whose first answers someone else edits the bullet it wants to edit."""

    def __init__(self, store: SqlPlaybookStore, times: int) -> None:
        super().__init__()
        self.store = store
        self.times = times

    async def propose(
        self,
        reflection: Reflection,
        playbook: Snapshot,
        sections: Sequence[SectionDefinition],
        waiting: Sequence[PendingChange],
    ) -> ProposedEdits:
        self.requests.append(playbook)
        if len(self.requests) <= self.times:
            await meddle(self.store, f"theirs {len(self.requests)}")
        return edits_of(delta("UPDATE", "mine", "gene-00001"), delta("ADD", "new"))


async def test_a_conflicting_delta_is_proposed_again_without_a_warning(
    store: SqlPlaybookStore, caplog: pytest.LogCaptureFixture
) -> None:  # idea 4
    await with_one(store)
    curator = CuratorWithConcurrentEdits(store, times=1)
    curation = await agent_of(curator, store).run(reflection(), "d")
    assert [snapshot.revision for snapshot in curator.requests] == [1, 2]
    assert [operation.applied for operation in curation.operations] == [True, True]
    assert [bullet.content for bullet in await bullets(store)] == ["mine", "new"]
    assert "delta not applied" not in caplog.text


async def test_the_last_conflict_is_reported_and_the_rest_applied(
    store: SqlPlaybookStore, caplog: pytest.LogCaptureFixture
) -> None:  # idea 4
    await with_one(store)
    curation = await agent_of(CuratorWithConcurrentEdits(store, times=ATTEMPTS), store).run(reflection(), "d")
    assert [operation.conflict is not None for operation in curation.operations] == [True, False]
    assert [bullet.content for bullet in await bullets(store)] == [f"theirs {ATTEMPTS}", "new"]
    assert caplog.text.count("delta not applied") == 1


class CuratorWithConcurrentLesson(ScriptedCurator):
    """A curator during whose first answer another trajectory adds a lesson."""

    def __init__(self, store: SqlPlaybookStore, theirs: str, *mine: str, signal: str = "reward") -> None:
        super().__init__()
        self.store, self.theirs, self.mine, self.signal = store, theirs, list(mine), signal
        self.waiting: list[int] = []

    async def propose(
        self,
        reflection: Reflection,
        playbook: Snapshot,
        sections: Sequence[SectionDefinition],
        waiting: Sequence[PendingChange],
    ) -> ProposedEdits:
        self.requests.append(playbook)
        self.waiting.append(len(waiting))
        if len(self.requests) == 1:
            other = agent_of(ScriptedCurator(edits_of(delta("ADD", self.theirs))), self.store)
            await other.run(_reflection_of("other", self.signal), "d")
        return edits_of(delta("ADD", self.mine.pop(0)))


def _reflection_of(trajectory: str, signal: str) -> Reflection:
    return reflection(trajectory_id=trajectory, signal=signal)


NEAR = "Check the refund policy of the airline before cancelling a reservation"
NEAR_TOO = "Before cancelling a reservation check the refund policy"
FAR = "Retry a 429 after its Retry-After"


async def test_proposals_are_made_again_when_something_near_them_was_added(store: SqlPlaybookStore) -> None:
    curator = CuratorWithConcurrentLesson(store, NEAR, NEAR_TOO, FAR)
    await agent_of(curator, store).run(_reflection_of("mine", "reward"), "d")
    assert [snapshot.revision for snapshot in curator.requests] == [0, 1]
    assert [bullet.content for bullet in await bullets(store)] == [NEAR, FAR]


async def test_proposals_stand_when_something_else_was_added(store: SqlPlaybookStore) -> None:
    curator = CuratorWithConcurrentLesson(store, FAR, NEAR_TOO)
    await agent_of(curator, store).run(_reflection_of("mine", "reward"), "d")
    assert len(curator.requests) == 1
    assert [bullet.content for bullet in await bullets(store)] == [FAR, NEAR_TOO]


async def test_a_new_pending_lesson_counts_as_a_neighbour(store: SqlPlaybookStore) -> None:
    curator = CuratorWithConcurrentLesson(store, NEAR, NEAR_TOO, FAR, signal=SELF_REPORT)
    await agent_of(curator, store).run(_reflection_of("mine", SELF_REPORT), "d")
    assert curator.waiting == [0, 1]


async def test_a_served_bullet_is_not_learned_from_its_trajectory(store: SqlPlaybookStore) -> None:
    await with_one(store)
    agent = agent_of(ScriptedCurator(edits_of(delta("ADD", "one"))), store)
    curation = await agent.run(reflection(served=frozenset({"gene-00001"})), "d")
    assert curation.operations[0].skipped_reason == "this lesson was served to the trajectory: gene-00001"
    assert (await bullets(store))[0].sources == ()


async def test_a_served_bullet_is_not_learned_in_other_words(store: SqlPlaybookStore) -> None:
    served_bullet = "Check the refund policy of the airline before cancelling a reservation"
    echo = "Before cancelling a reservation, check the airline's refund policy"
    agent = agent_of(ScriptedCurator(*(edits_of(delta("ADD", text)) for text in (served_bullet, echo, echo))), store)
    await agent.run(reflection(), "d")
    served = await agent.run(reflection(trajectory_id="b", served=frozenset({"gene-00001", "gone"})), "d")
    other = await agent.run(reflection(trajectory_id="c"), "d")
    assert [item.operations[0].applied for item in (served, other)] == [False, True]
    assert "lesson was served to the trajectory" in served.operations[0].skipped_reason


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    """Return a folder with a template of a user."""
    (tmp_path / "default.txt").write_text("{insights}|{bullets}|{sections}", encoding="utf-8")
    return tmp_path


def model_agent(store: SqlPlaybookStore, model: ScriptedModel, templates: Path) -> CuratorAgent:
    curator = ModelCurator(LLMClient(model), CuratorPromptBuilder(templates), "gpt-test", BY_WORDS)
    return agent_of(curator, store)


REPLY = '{"deltas": [{"type": "ADD", "section": "s", "bullet_id": null, "content": "two {x}", "reasoning": "r"}]}'


@pytest.mark.parametrize("reply", [REPLY, f"Sure:\n```json\n{REPLY}\n```", f"Here: {REPLY} done"])
async def test_the_reply_to_a_users_template_becomes_deltas(  # C-52, C-54, C-55, C-78
    store: SqlPlaybookStore, templates: Path, reply: str
) -> None:
    model = ScriptedModel(reply)
    curation = await model_agent(store, model, templates).run(reflection(), "d")
    assert model.requests == [[("human", f"{INSIGHT.key_insight}|(Bulletはありません)|(セクション定義はありません)")]]
    [bullet] = await bullets(store)
    assert (bullet.content, curation.model) == ("two {x}", "gpt-test")
    assert [(source.trajectory, source.steps) for source in bullet.sources] == [("run-1", (2,))]


@pytest.mark.parametrize(
    "reply",
    ["no json", "{}", '{"deltas": "x"}', '{"deltas": [{"type": "MOVE"}]}', f'{{"deltas": [{REPLY[12:-2]}, {{}}]}}'],
)
async def test_an_unreadable_reply_is_requested_once_more_and_nothing_is_saved(  # C-55, C-56
    store: SqlPlaybookStore, templates: Path, reply: str
) -> None:
    await with_one(store)
    votes = [Evaluation("gene-00001", "helpful")]
    agent = model_agent(store, ScriptedModel(reply, reply, REPLY), templates)
    refused = json.loads(await agent.run_once(reflection(votes=votes), "d", KEY, summary_of))
    assert refused["saved"] is False
    assert "JSON object" in refused["error"]
    assert ([bullet.helpful for bullet in await bullets(store)], (await store.load("d")).revision) == ([0], 1)
    again = json.loads(await agent.run_once(reflection(votes=votes), "d", KEY, summary_of))
    assert again == {"saved": True, "error": ""}, "the same request can be sent again"
    assert [bullet.helpful for bullet in await bullets(store)] == [1, 0]


async def test_a_reply_without_deltas_is_valid(store: SqlPlaybookStore, templates: Path) -> None:  # C-57
    curation = await model_agent(store, ScriptedModel('{"deltas": []}'), templates).run(reflection(), "d")
    assert (curation.saved, curation.error, curation.result.summary) == (True, "", UNSAVED)


async def test_a_model_cannot_set_ids_counters_or_provenance(store: SqlPlaybookStore, templates: Path) -> None:
    reply = (
        '{"deltas": [{"type": "ADD", "section": "s", "bullet_id": "own-99999", "content": "c", "reasoning": "r",'
        ' "helpful": 99, "sources": [{"trajectory": "x"}], "id": "mine", "retired": ""}]}'
    )
    await model_agent(store, ScriptedModel(reply), templates).run(reflection(), "d")
    [bullet] = await bullets(store)
    assert (bullet.id, bullet.helpful, bullet.source_trajectory) == ("s-00001", 0, "run-1")


def rules(store: SqlPlaybookStore) -> CuratorAgent:
    return agent_of(RuleCurator(BY_WORDS), store)


def lesson(text: str, section: str = "general") -> Lesson:
    return Lesson("r", "e", "c", "a", text, steps=(1,), section=section)


async def test_rules_add_new_lessons_and_confirm_existing_ones(store: SqlPlaybookStore) -> None:
    text = "Set user.name and user.email before the first commit in a new repository."
    other = "Before the first commit in new repositories, set user.name and user.email."
    first = await rules(store).run(reflection(lesson(text), trajectory_id="a"), "d")
    second = await rules(store).run(reflection(lesson(text), lesson("Retry on 429."), trajectory_id="b"), "d")
    third = await rules(store).run(reflection(lesson(other), trajectory_id="c"), "d")
    assert (first.result.summary, first.model) == ("ADD: 1, UPDATE: 0, DELETE: 0", "offline")
    assert [operation.applied for operation in second.operations] == [False, True]
    assert [operation.applied for operation in third.operations] == [False]
    assert [bullet.content for bullet in await bullets(store)] == [text, "Retry on 429."]
    assert [source.trajectory for source in (await bullets(store))[0].sources] == ["a", "b", "c"]
    assert all(operation.delta.reasoning for operation in (*first.operations, *second.operations, *third.operations))


async def test_rules_keep_the_more_detailed_text(store: SqlPlaybookStore) -> None:
    short = "Check the refund policy before cancelling"
    longer = "Check the refund policy before cancelling; policy codes"
    await rules(store).run(reflection(lesson(short)), "d")
    curation = await rules(store).run(reflection(lesson(longer), trajectory_id="b"), "d")
    assert curation.result.summary == "ADD: 0, UPDATE: 1, DELETE: 0"
    assert [bullet.content for bullet in await bullets(store)] == [longer]


async def test_rules_remove_contradicted_bullets_with_more_harmful_votes(store: SqlPlaybookStore) -> None:
    await rules(store).run(reflection(lesson("Use pagination page_size 100 for the orders API")), "d")
    harmful = [Evaluation("gene-00001", "harmful")]
    await rules(store).run(Reflection((), tuple(harmful), "run-2"), "d")
    against = lesson("Never use pagination page_size 100 for the orders API")
    curation = await rules(store).run(reflection(against, votes=harmful, trajectory_id="run-3"), "d")
    assert curation.result.summary == "ADD: 1, UPDATE: 0, DELETE: 1"
    assert [bullet.content for bullet in await bullets(store)] == [against.key_insight]


async def test_rules_are_deterministic(store: SqlPlaybookStore) -> None:
    await with_one(store)
    snapshot = await store.load("d")
    insights = reflection(*(lesson(f"lesson {number} of retries and limits", "") for number in range(10)))
    sections = [SectionDefinition("limits", "Limits and retries"), SectionDefinition("others", "the rest")]
    answers = [await RuleCurator(BY_WORDS).propose(insights, snapshot, sections) for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert {proposal.delta.section for proposal in answers[0].proposals} == {"limits"}


async def test_rules_learn_from_japanese(store: SqlPlaybookStore) -> None:
    text = "新しいリポジトリでは、最初のコミットの前に名前とメールを設定する。"
    again = "新しいリポジトリでは最初のコミットの前に、名前とメールを設定する"
    await rules(store).run(reflection(lesson(text)), "d")
    curation = await rules(store).run(reflection(lesson(again), trajectory_id="b"), "d")
    assert [operation.applied for operation in curation.operations] == [False]
