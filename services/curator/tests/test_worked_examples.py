"""Examples: successful trajectories, each as a request with the calls that worked (ADR 255)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from services.curator.adapters.sql.repository import SqlPlaybookStore
from services.curator.domain.curation import SELF_REPORT, DeltaContextItem, EvidenceCall, Proposal, Reflection
from services.curator.domain.evidence import MAX_EXAMPLES, Evidence, add_trajectory
from services.curator.domain.general_lessons import EXAMPLES, derive_lessons
from services.curator.domain.log import Origin, RevisionKind
from services.curator.tests.test_general_lessons import E41, build_reflection, call, curate
from services.curator.tests.test_lessons import NoSections
from services.curator.usecases.commit import EditBatch, commit
from services.curator.usecases.curate import CuratorAgent
from services.curator.usecases.generalize import REPLACED, SHOWN
from services.curator.usecases.ports import DatasetTransaction
from services.curator.usecases.rule_curator import RuleCurator
from services.curator.usecases.similarity import WordSource


def list_examples(operation: str, *reflections: Reflection) -> list[str]:
    record = Evidence(operation)
    for reflection in reflections:
        record = add_trajectory(record, reflection)
    texts = [lesson.text for lesson in derive_lessons(record) if lesson.section == EXAMPLES]
    return [text.removeprefix("Example: ") for text in texts]


def test_a_trajectory_is_an_example_of_the_operation_that_it_ends_with() -> None:
    reflections = [build_reflection(name, call("look", case=name), call("close", case=name)) for name in ("a", "b")]
    assert list_examples("look", *reflections) == []
    assert list_examples("close", *reflections) == [
        f'"request of {name}" → `look` {{"case": "{name}"}}, `close` {{"case": "{name}"}}' for name in ("a", "b")
    ]


def test_one_task_has_no_example() -> None:
    first, again = (build_reflection(name, call("close", case="a"), task="a") for name in ("first", "again"))
    assert list_examples("close", first, again) == []
    assert len(list_examples("close", first, again, build_reflection("b", call("close", case="b")))) == 2


def test_only_reliable_successes_are_examples() -> None:
    passed = [build_reflection(name, call("close", case=name)) for name in ("a", "b")]
    failed = build_reflection("c", call("close", case="c"), passed=False)
    claimed = build_reflection("d", call("close", case="d"), signal=SELF_REPORT)
    assert list_examples("close", failed, claimed, *passed) == list_examples("close", *passed)


def test_an_example_omits_failed_calls() -> None:
    ended = build_reflection("a", call("look", case="a"), call("close", E41, case="a"))
    repaired = build_reflection("b", call("close", E41, 1, case=2), call("close", case="b"))
    other = build_reflection("c", call("close", case="c"))
    assert list_examples("close", ended, repaired, other) == [
        f'"request of {name}" → `close` {{"case": "{name}"}}' for name in ("b", "c")
    ]


def test_an_example_shows_all_arguments() -> None:
    arguments: dict[str, Any] = {f"option_{number}": "standard" for number in range(12)}
    reflections = [build_reflection(name, call("book", **arguments, last=name)) for name in ("a", "b")]
    assert list_examples("book", *reflections)[0].endswith('"option_11": "standard", "last": "a"}')


def test_the_examples_are_those_with_the_fewest_calls() -> None:
    reflections = [
        build_reflection(f"r{looks}", *(call("look", n=n) for n in range(looks)), call("close", id=looks))
        for looks in range(9)
    ]
    shown = list_examples("close", *reversed(reflections))
    assert [text.count("`look`") for text in shown] == [*range(MAX_EXAMPLES)]
    assert list_examples("close", *reflections[8:], *reflections[:1]) == []


def test_an_example_shows_the_tool_that_ran_a_command() -> None:
    reflections = [
        build_reflection(name, EvidenceCall("brick", f'{{"command": "brick {name}"}}', tool="shell"))
        for name in ("a", "b")
    ]
    assert list_examples("brick", *reflections)[0] == '"request of a" → `shell` {"command": "brick a"}'


def test_an_example_shows_nested_arguments_as_they_were() -> None:
    reflections = [
        build_reflection(name, EvidenceCall("pack", f'{{"box.size": 3, "name": "{name}"}}')) for name in ("a", "b")
    ]
    assert '`pack` {"box": {"size": 3}, "name": "a"}' in list_examples("pack", *reflections)[0]


async def test_a_shorter_example_replaces_the_longest(store: SqlPlaybookStore) -> None:
    long = [build_reflection(f"long-{n}", call("look", n=n), call("close", id=n)) for n in range(MAX_EXAMPLES)]
    assert [text.count("`look`") for text in await curate(store, *long)] == [1] * MAX_EXAMPLES
    curator = CuratorAgent(RuleCurator(WordSource()), store, NoSections(), WordSource())
    curation = await curator.run(build_reflection("short", call("close", id=9)), "d")
    assert [(delta.type, delta.reasoning) for delta in curation.result.deltas] == [("DELETE", REPLACED), ("ADD", SHOWN)]
    contents = [bullet.content for bullet in (await store.load("d")).bullet_list]
    assert [text.count("`look`") for text in contents] == [1] * (MAX_EXAMPLES - 1) + [0]


def test_two_tasks_with_one_request_are_one() -> None:
    same = [replace(build_reflection(name, call("close", id=name), task=name), query="Close it.") for name in "ab"]
    assert list_examples("close", *same) == []
    other = build_reflection("c", call("close", id="c"))
    assert list_examples("close", *same, other) == [
        '"Close it." → `close` {"id": "a"}', '"request of c" → `close` {"id": "c"}'
    ]  # fmt: skip


async def test_an_example_of_a_former_version_is_replaced(store: SqlPlaybookStore) -> None:
    text = 'Example of `close`: "request of a" → `close` {"id": "a"}'
    first, second = (build_reflection(name, call("close", id=name)) for name in "ab")
    await curate(store, first)

    def publish(dataset: DatasetTransaction) -> None:
        delta = DeltaContextItem(type="ADD", section=EXAMPLES, bullet_id=None, content=text, reasoning="")
        commit(dataset, EditBatch(Origin(RevisionKind.APPLY, "former version"), [Proposal(delta)]))
        [record] = dataset.load_evidence(["close"]).values()
        dataset.store_evidence([replace(record, published={"Example of `close`": text})])

    await store.write("d", publish)
    assert [content.partition(":")[0] for content in await curate(store, second)] == ["Example", "Example"]


async def test_one_request_with_two_endings_has_two_examples(store: SqlPlaybookStore) -> None:
    reflections = [
        replace(build_reflection(f"{end}-{query}", call("look", at=end), call(end)), query=query)
        for end in ("open", "close")
        for query in ("Do it.", f"Please {end}.")
    ]
    shown = [content for content in await curate(store, *reflections) if '"Do it."' in content]
    assert [content.rpartition(", ")[2] for content in shown] == ["`open` {}", "`close` {}"]
