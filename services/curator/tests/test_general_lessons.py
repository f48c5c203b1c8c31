"""Derive lessons from the evidence of several tasks, and bring a playbook to them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from services.curator.adapters.sql.repository import SqlPlaybookStore
from services.curator.domain.curation import OFFLINE_MODEL, SELF_REPORT, EvidenceCall, Lesson, Reflection
from services.curator.domain.evidence import MAX_OBSERVATIONS, Evidence, add_trajectory
from services.curator.domain.general_lessons import EXAMPLES, derive_lessons, find_shape
from services.curator.domain.log import Origin, RevisionKind
from services.curator.domain.review import PendingState
from services.curator.tests.test_lessons import NoSections
from services.curator.usecases.curate import CuratorAgent
from services.curator.usecases.generalize import EvidenceUpdate, generalize
from services.curator.usecases.ports import DatasetTransaction
from services.curator.usecases.revoke import revoke
from services.curator.usecases.rule_curator import RuleCurator
from services.curator.usecases.similarity import WordSource

E41 = "Error: E41"


def call(operation: str, error: str = "", repaired_by: int | None = None, **arguments: object) -> EvidenceCall:
    return EvidenceCall(operation, json.dumps(arguments), error, repaired_by, 1)


def build_reflection(
    name: str, *calls: EvidenceCall, task: str = "", passed: bool = True, signal: str = "reward"
) -> Reflection:
    query = f"request of {task or name}"
    return Reflection(
        trajectory_id=name, query=query, task_id=task, signal=signal, model=OFFLINE_MODEL, calls=calls,
        is_success=passed,
    )  # fmt: skip


def pays(name: str, before: str, after: str) -> Reflection:
    """Return the reflection on a trajectory that repairs the amount, with a note that happens to change too."""
    notes = ("as asked", "first reminder") if name == "a" else ("first reminder", "as asked")
    failed = call("pay_fee", E41, 1, account=name, amount=before, note=notes[0])
    return build_reflection(name, failed, call("pay_fee", account=name, amount=after, note=notes[1]))


def texts(operation: str, *reflections: Reflection) -> list[str]:
    record = Evidence(operation)
    for reflection in reflections:
        record = add_trajectory(record, reflection)
    return [lesson.text for lesson in derive_lessons(record) if lesson.section != EXAMPLES]


@pytest.mark.parametrize(
    "arguments", ['{"' + "a." * 1_500 + 'b": 1}', '{"a": ' + "[" * 985 + "]" * 985 + "}", "[" * 1_900 + "]" * 1_900]
)
def test_arguments_that_are_nested_deeply_are_evidence(arguments: str) -> None:
    failed, fixed = EvidenceCall("save", arguments, E41, 1, 1), EvidenceCall("save", arguments, "", None, 2)
    opened = call("open", id="A-1")
    record = Evidence("save")
    for name in ("a", "b"):
        record = add_trajectory(record, build_reflection(name, failed, opened, fixed))
    assert derive_lessons(record)


def test_two_tasks_make_a_repair_general_with_the_values_that_worked_and_failed() -> None:
    first, second = pays("a", "45.00", "4500"), pays("b", "12.50", "1250")
    assert texts("pay_fee", first) == []
    assert texts("pay_fee", first, replace(second, task_id="t", query=""), replace(first, task_id="t")) != []
    assert texts("pay_fee", first, second) == [
        '`pay_fee` fails with "Error: E41": `amount` worked as "4500" or "1250", failed as "45.00" or "12.50".'
    ]


@pytest.mark.parametrize(
    ("query", "report"),
    [
        ("push it", '`git push` fails with "error: rejected"; in one task it worked after `git pull`.'),
        ("プッシュして", "`git push`は「error: rejected」で失敗する。あるタスクでは`git pull`の後、成功した。"),
    ],
)
def test_what_repaired_a_call_in_one_task_is_reported_in_the_language_of_the_request(query: str, report: str) -> None:
    push = call("git push", "error: rejected", 2, command="git push")
    again = call("git push", command="git push")
    passed = build_reflection("a", push, call("git pull", command="git pull --rebase"), again)
    assert texts("git push", replace(passed, query=query)) == [report]


def test_a_command_that_worked_in_one_task_is_reported_with_its_options_only_if_the_trajectory_passed() -> None:
    failed, worked = (call("git pull", error, fixed, command=f"git pull --rebase{option}") for error, fixed, option in (
        ("error: unstaged changes", 1, ""), ("", None, " --autostash")
    ))  # fmt: skip
    report = '`git pull` fails with "error: unstaged changes"; in one task "git pull --rebase --autostash" worked.'
    assert texts("git pull", build_reflection("a", failed, worked)) == [report]
    assert texts("git pull", build_reflection("a", failed, worked, passed=False)) == []
    assert texts("git pull", build_reflection("a", failed, worked, signal=SELF_REPORT)) == []


def test_another_program_that_worked_in_one_task_is_reported_as_its_command() -> None:
    npm = call("npm install", "sh: npm: not found", 1, command="npm install left-pad")
    pnpm = call("pnpm install", command="pnpm install left-pad")
    report = '`npm install` fails with "sh: npm: not found"; in one task "pnpm install left-pad" worked.'
    assert texts("npm install", build_reflection("a", npm, pnpm)) == [report]


def test_two_trajectories_of_one_task_are_one_task() -> None:
    same = [replace(pays(name, "45.00", "4500"), task_id="t") for name in ("a", "b")]
    assert texts("pay_fee", *same) == []


def test_a_constant_argument_is_stated_as_a_value() -> None:
    reflections = [
        build_reflection(case, call("assign", "U19", 1, case=case, unit=unit), call("assign", case=case, unit="Q7"))
        for case, unit in (("c-1", "billing"), ("c-2", "B"))
    ]
    assert texts("assign", *reflections) == [
        '`assign` fails with "U19": `unit` worked as "Q7", failed as "billing" or "B".'
    ]


def test_a_repair_names_the_new_argument_of_a_value() -> None:
    def weighs(case: str, kilos: str) -> Reflection:
        failed = EvidenceCall("weigh", json.dumps({"box.weight": kilos}), "U20", 1)
        return build_reflection(case, failed, EvidenceCall("weigh", json.dumps({"box.kg": kilos})))

    reflections = [weighs("a", "48"), weighs("b", "53")]
    assert texts("weigh", *reflections) == [
        '`weigh` fails with "U20": `box.weight` worked as absent, failed as "48" or "53"; '
        '`box.kg` worked as "48" or "53", failed as absent.'
    ]


def test_a_value_that_also_worked_before_is_no_cause() -> None:
    mixed = [pays("a", "45.00", "4500"), pays("b", "1250", "12.50")]
    assert texts("pay_fee", *mixed) == []


def test_a_call_between_failure_and_success_is_the_repair_of_an_unchanged_call() -> None:
    def closes(name: str, *between: str) -> Reflection:
        made = [call("close", "Error: 409-B", len(between) + 1, case=name), *(call(tool) for tool in between)]
        return build_reflection(name, *made, call("close", case=name))

    assert texts("close", closes("a", "look", "freeze"), closes("b", "freeze")) == [
        '`close` fails with "Error: 409-B" until `freeze` was called: call it first.'
    ]
    assert texts("close", closes("a"), closes("b")) == []


def test_another_program_is_named_with_the_command_that_worked() -> None:
    reflections = [
        build_reflection(
            name, call("npm install", "exit 1", 1, command="npm install"), call("pnpm", command="pnpm install")
        )
        for name in ("a", "b")
    ]
    assert texts("npm install", *reflections) == [
        '`npm install` fails with "exit 1"; use `pnpm` instead, as in "pnpm install".'
    ]


def test_repairs_in_failures_and_new_options_in_unproven_trajectories_are_no_evidence() -> None:
    failed = [replace(pays(name, "45.00", "4500"), is_success=False) for name in ("a", "b")]
    assert texts("pay_fee", *failed) == []
    unproven = [
        build_reflection(
            name, call("git push", "rejected", 1, command="git push"), call("git push", command="git push --force"),
            signal=SELF_REPORT,
        )
        for name in ("a", "b")
    ]  # fmt: skip
    assert texts("git push", *unproven) == []
    assert "--force" in texts("git push", *(replace(item, signal="reward") for item in unproven))[0]


def siblings(task: str, bad: str, good: str) -> list[Reflection]:
    """Return the reflections on a failed and a passed trajectory of a task, with texts that differ by chance."""
    words = ("as asked", "on request", "first reminder, see the file", "urgent!")
    number = int(task[-1])
    texts = words[number % 4], words[(number + 1) % 4]
    return [
        build_reflection(f"{task}-bad", call("send", case=task, channel=bad, text=texts[0]), task=task, passed=False),
        build_reflection(f"{task}-good", call("send", case=task, channel=good, text=texts[1]), task=task),
    ]


def five_tasks() -> list[Reflection]:
    bad = ("email", "letter", "email", "letter", "email")
    return [
        reflection for number, value in enumerate(bad) for reflection in siblings(f"t-{number}", value, "registered")
    ]


def test_a_value_of_only_failed_trajectories_is_a_lesson_without_any_error() -> None:
    reflections = five_tasks()
    assert texts("send", *reflections[:4]) == []
    assert texts("send", *reflections) == [
        '`send`: `channel` as "registered" in successes; as "email" or "letter" only in failures.'
    ]
    unproven = [replace(item, signal=SELF_REPORT) for item in reflections]
    assert texts("send", *unproven) == []


def test_a_form_of_only_failed_trajectories_is_a_lesson() -> None:
    reflections = [
        reflection for number in range(5) for reflection in siblings(f"t-{number}", f"2031-Q{number}", f"FY31Q{number}")
    ]
    [text] = texts("send", *reflections)
    assert text.startswith('`send`: `channel` as "FY31Q0" or "FY31Q1" in successes; as "2031-Q0" or "2031-Q1"')


SHELVES = {"plasma": "F80", "serum": "C04"}


def stores(number: int, shelf: str = "") -> EvidenceCall:
    material = ("plasma", "serum")[number % 2]
    return call("store", tube=number, material=material, shelf=shelf or SHELVES[material])


def test_a_value_that_another_argument_decides_is_a_lesson_without_any_error() -> None:
    reflections = [build_reflection(f"good-{number}", stores(number), task=f"t-{number}") for number in range(8)]
    wrong = {"plasma": "C04", "serum": "F80"}
    reflections += [
        build_reflection(
            f"bad-{number}", stores(number, wrong[("plasma", "serum")[number % 2]]), task=f"t-{number}", passed=False
        )
        for number in range(3)
    ]
    assert texts("store", *reflections) == [
        '`store`: `shelf` follows `material`: "F80" with "plasma", "C04" with "serum" in successes; '
        "trajectories with another value failed."
    ]
    against = build_reflection("other", stores(0, "C04"), task="t-9")
    assert texts("store", *reflections, against) == []


def test_a_value_that_another_argument_decides_is_the_repair_of_an_error() -> None:
    wrong = ("C04", "F80")
    reflections = [
        build_reflection(f"r-{number}", call("store", E41, 1, tube=number, material=("plasma", "serum")[number % 2],
            shelf=wrong[number % 2]), stores(number), task=f"t-{number}")
        for number in range(8)
    ]  # fmt: skip
    assert texts("store", *reflections[:2]) == []
    assert texts("store", *reflections) == [
        '`store` fails with "Error: E41": `shelf` follows `material`: "F80" with "plasma", "C04" with "serum".'
    ]


def test_values_that_agree_by_chance_are_no_decision() -> None:
    good = [build_reflection(f"good-{number}", stores(number), task=f"t-{number}") for number in range(4)]
    bad = [
        build_reflection(f"bad-{n}", stores(n, ("C04", "F80")[n % 2]), task=f"t-{n}", passed=False) for n in range(3)
    ]
    assert texts("store", *good, *bad) == []


def test_free_text_has_no_form() -> None:
    good = ("Look: 3", "(4 + 5) * 2", "A, b", "x_y", "7%")
    reflections = [
        reflection
        for number, text in enumerate(good)
        for reflection in siblings(f"t-{number}", f"{number} = {number}", text)
    ]
    assert texts("send", *reflections) == []


def test_a_call_that_failures_lack_is_a_lesson_when_it_is_significant() -> None:
    def grants(number: int, publishes: bool) -> Reflection:
        extra = [call("publish")] if publishes else []
        return build_reflection(f"r{number}", call("grant", plot=number), call("look"), *extra, passed=publishes)

    few = [grants(number, number % 2 == 0) for number in range(4)]
    many = [grants(number, number % 2 == 0) for number in range(12)]
    assert texts("grant", *few) == []
    assert texts("grant", *many) == ["`grant`: also call `publish`; trajectories without it failed."]


def test_one_lesson_names_the_program_that_replaces_another() -> None:
    def fills(number: int, repairs: bool) -> Reflection:
        made = [call("fill", "rc=51", 1, command="fill"), call("brick", command="brick")]
        return build_reflection(f"r{number}", *(made if repairs else made[:1]), passed=repairs)

    assert texts("fill", *(fills(number, number % 2 == 0) for number in range(12))) == [
        '`fill` fails with "rc=51"; use `brick` instead, as in "brick".'
    ]


def test_errors_that_name_one_value_each_are_explained_by_the_argument_that_decides() -> None:
    carriers = {"Norway": "NORDX", "Spain": "IBERLOG", "Ireland": "EMERALD"}
    reflections = [
        build_reflection(
            f"{country}-{number}",
            call("ship", f"carrier of {country} is <id>", 1, country=country, carrier="cheapest"),
            call("ship", country=country, carrier=carrier),
        )
        for number in range(4)
        for country, carrier in carriers.items()
    ]
    [lesson] = texts("ship", *reflections)
    assert lesson.startswith('`ship`: `carrier` follows `country`: "EMERALD" with "Ireland", "NORDX" with "Norway"')
    assert texts("ship", *reflections[:3]) == []


def ships(country: str, carrier: str, error: str) -> Reflection:
    calls = (
        call("ship", error, 1, country=country, carrier="cheapest"),
        call("ship", country=country, carrier=carrier),
    )
    return build_reflection(country, *calls)


def test_errors_that_state_both_values_need_no_statistics() -> None:
    stating = [ships(a, b, f"carrier of {a} is {b}.") for a, b in (("Spain", "IBERLOG"), ("Norway", "NORDX"))]
    silent = [ships(a, b, f"E{len(a)}") for a, b in (("Spain", "IBERLOG"), ("Norway", "NORDX"))]
    assert texts("ship", *stating) == [
        '`ship`: `carrier` follows `country`: "NORDX" with "Norway", "IBERLOG" with "Spain"; '
        "calls with another value failed."
    ]
    assert texts("ship", *silent) == []
    contradicting = build_reflection("x", call("ship", country="Spain", carrier="NORDX"))
    assert texts("ship", *stating, contradicting) == []
    again = replace(stating[0], trajectory_id="again", query="another")
    assert not any("follows" in text for text in texts("ship", stating[0], again))


async def test_a_lesson_that_explains_errors_replaces_the_bullets_on_each(store: SqlPlaybookStore) -> None:
    carriers = {"Norway": "NORDX", "Spain": "IBERLOG", "Ireland": "EMERALD"}
    reflections = []
    for number in range(4):
        for country, carrier in carriers.items():
            error = f"carrier of {country} is <id>"
            text = f'Before `ship`: check what it needs, or `ship` fails with "{error}".'
            lesson = Lesson("r", "e", "c", "a", text, (1,), "troubleshooting_and_pitfalls")
            calls = (
                call("ship", error, 1, country=country, carrier="cheapest"),
                call("ship", country=country, carrier=carrier),
            )
            reflections.append(replace(build_reflection(f"{country}-{number}", *calls), insights=(lesson,)))
    assert any("check what it needs" in text for text in await curate(store, *reflections[:3]))
    bullets = await curate(store, *reflections[3:])
    assert any("`carrier` follows `country`" in text for text in bullets)
    assert not any("check what it needs" in text for text in bullets)


def test_a_record_is_bounded_and_counts_each_trajectory_once() -> None:
    record = Evidence("send")
    for number in range(100):
        record = add_trajectory(record, siblings(f"t-{number}", "a", "b")[0])
    assert len(record.observations) == MAX_OBSERVATIONS
    assert add_trajectory(record, siblings("t-99", "a", "b")[0]) == record


@pytest.mark.parametrize(
    ("value", "shape"),
    [("45.00", "9.9"), ("DOE, JANE", "A, A"), ("Jane Doe", "words"), ("FY31Q2", "A9A9"), ("urgent, please", "words")],
)
def test_a_shape_is_the_form_without_the_value(value: str, shape: str) -> None:
    assert find_shape(value) == shape


async def curate(store: SqlPlaybookStore, *reflections: Reflection) -> list[str]:
    by_words = WordSource()
    for reflection in reflections:
        curation = await CuratorAgent(RuleCurator(by_words), store, NoSections(), by_words).run(reflection, "d")
        assert curation.saved
    return [bullet.content for bullet in (await store.load("d")).bullet_list]


async def test_one_task_is_evidence_and_a_second_updates_the_bullet(store: SqlPlaybookStore) -> None:
    text = 'Before `pay_fee`: check what it needs, or `pay_fee` fails with "Error: E41".'
    lesson = Lesson("r", "e", "c", "a", text, (1,), "troubleshooting_and_pitfalls")
    first = replace(pays("a", "45.00", "4500"), insights=(lesson,))
    second = replace(pays("b", "9.50", "950"), insights=(lesson,))
    assert await curate(store, first) == [text]
    assert await store.list_pending_changes("d", [PendingState.WAITING], "", 10) == []
    general, *examples = await curate(store, second)
    assert general.startswith('`pay_fee` fails with "Error: E41": `amount` worked as "4500" or "950"')
    assert [text.partition(', "note"')[0] for text in examples] == [
        'Example: "request of a" → `pay_fee` {"account": "a", "amount": "4500"',
        'Example: "request of b" → `pay_fee` {"account": "b", "amount": "950"',
    ]
    bullet = (await store.load("d")).bullet_list[0]
    assert {source.trajectory for source in bullet.sources} == {"a", "b"}
    assert await curate(store, first, second) == [general, *examples]


async def test_a_report_keeps_the_guard_and_the_steps_of_the_lesson_that_it_replaces(store: SqlPlaybookStore) -> None:
    text = 'Before `git push`: check what it needs, or `git push` fails with "error: rejected".'
    lesson = Lesson("r", "e", "c", "a", text, (1, 3), "troubleshooting_and_pitfalls", target="call.tool == 'git'")
    push = call("git push", "error: rejected", 2, command="git push")
    passed = build_reflection("a", push, call("git pull", command="git pull"), call("git push", command="git push"))
    curator = CuratorAgent(RuleCurator(WordSource()), store, NoSections(), WordSource())
    curation = await curator.run(replace(passed, insights=(lesson,)), "d")
    [bullet] = (await store.load("d")).bullet_list
    assert bullet.content == '`git push` fails with "error: rejected"; in one task it worked after `git pull`.'
    assert bullet.target is not None
    assert bullet.target.expression == "call.tool == 'git'"
    assert bullet.sources[0].steps == (1, 3)
    assert [delta.reasoning for delta in curation.result.deltas] == ["a trajectory of one task shows what worked"]


async def test_later_trajectories_that_contradict_a_lesson_remove_it(store: SqlPlaybookStore) -> None:
    assert any(text.startswith("`send`: `channel`") for text in await curate(store, *five_tasks()))
    against = build_reflection("x", call("send", case="c", channel="email"))
    assert not any(text.startswith("`send`: `channel`") for text in await curate(store, against))


async def test_a_bullet_that_a_person_removed_stays_removed(store: SqlPlaybookStore) -> None:
    await curate(store, pays("a", "45.00", "4500"), pays("b", "12.50", "1250"))

    def remove_all(dataset):  # type: ignore[no-untyped-def]
        draft = dataset.create_draft()
        for stored in dataset.list_bullets():
            draft.remove(stored)
        dataset.append(draft, Origin(RevisionKind.APPLY, "a person"), "removed")

    await store.write("d", remove_all)
    assert await curate(store, pays("c", "7.50", "750")) == [
        'Example: "request of c" → `pay_fee` {"account": "c", "amount": "750", "note": "as asked"}'
    ]


async def test_a_revoked_trajectory_is_no_evidence_any_more(store: SqlPlaybookStore) -> None:
    await curate(store, pays("a", "45.00", "4500"))
    await store.write("d", lambda dataset: revoke(dataset, "a", Origin(RevisionKind.APPLY, "a person"), dry_run=False))
    assert (await store.load_with_evidence("d", ["pay_fee"]))[1]["pay_fee"].trajectories == set()
    assert await curate(store, pays("b", "12.50", "1250")) == []


async def test_evidence_changes_only_with_a_revision_also_if_the_log_no_longer_names_its_trajectory(
    store: SqlPlaybookStore,
) -> None:
    await curate(store, pays("a", "45.00", "4500"), build_reflection("other", call("send")))
    await store.drop_old_revisions(timedelta(seconds=-1))
    snapshot, base = await store.load_with_evidence("d", ["pay_fee"])
    await store.write("d", lambda dataset: revoke(dataset, "a", Origin(RevisionKind.APPLY, "a person"), dry_run=False))
    assert (await store.load("d")).revision == snapshot.revision + 1
    update = await generalize(pays("b", "45.00", "4500"), snapshot, base)
    assert not await store.write("d", partial(update.store, must_match=True))


async def test_concurrent_trajectories_are_all_evidence(store: SqlPlaybookStore) -> None:
    """Proposals are made again only if the calls of the other trajectory change the lessons."""
    snapshot, base = await store.load_with_evidence("d", ["pay_fee"])
    unrepaired = build_reflection("c", call("pay_fee", E41, account="c"), passed=False)
    first, second, third = [
        await generalize(reflection, snapshot, base)
        for reflection in (pays("a", "45.00", "4500"), unrepaired, pays("b", "45.00", "4500"))
    ]
    steps = ((first, True, True), (second, True, True), (third, True, False), (third, False, True))
    for update, must_match, is_stored in steps:

        def store_with_revision(
            dataset: DatasetTransaction, update: EvidenceUpdate = update, must_match: bool = must_match
        ) -> bool:
            is_stored = update.store(dataset, must_match=must_match)
            dataset.append(dataset.create_draft(), Origin(RevisionKind.CURATE, "curator"), "no change")
            return is_stored

        assert await store.write("d", store_with_revision) is is_stored
    assert (await store.load_with_evidence("d", ["pay_fee"]))[1]["pay_fee"].trajectories == {"a", "b", "c"}
