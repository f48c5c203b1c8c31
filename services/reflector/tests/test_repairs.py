from __future__ import annotations

import pytest

from libs.trajectories.actions import extract_actions
from services.reflector.domain.repairs import ArgumentChange, compare_arguments, find_repairs
from services.reflector.tests.trajectories import MakeStep, calls, returns, says, steps

BOOKING = {"flight": "HAT030", "passenger": "Mia Li", "payment": "card_1"}


def repair_in(*makers: MakeStep) -> object:
    return find_repairs(extract_actions(steps(*makers))).get(0)


def test_a_repair_is_the_later_call_that_worked_and_what_differed() -> None:
    log = [
        calls("book", BOOKING),
        returns("Error: card declined"),
        calls("list_cards", {"passenger": "Mia Li"}),
        returns('["card_1", "card_2"]'),
        calls("book", {**BOOKING, "payment": "card_2"}),
        returns('{"id": 1}'),
    ]
    repair = find_repairs(extract_actions(steps(*log)))[0]
    assert (repair.failed.call_step, repair.fixed.call_step) == (0, 4)
    assert repair.changes == (ArgumentChange("payment", "card_1", "card_2"),)
    assert repair.operations_between == ("list_cards",)


def test_operations_in_between_repair_an_unchanged_call() -> None:
    commit = {"command": "git commit -m 'x'"}
    log = [
        calls("git", commit),
        returns("fatal: no email was given"),
        calls("git", {"command": "git config user.email me@example.org"}),
        returns("exit code 0"),
        calls("git", commit),
        returns("exit code 0"),
    ]
    repair = find_repairs(extract_actions(steps(*log)))[0]
    assert repair.changes == ()
    assert repair.operations_between == ("git config",)


def test_a_call_for_something_else_is_no_repair() -> None:
    failed = [calls("git", {"command": "git push"}), returns("error: failed to push some refs")]
    assert repair_in(*failed, calls("git", {"command": "git log"}), returns("abc")) is None
    lookup = [calls("search", {"query": "population of Colville"}), returns("Error: timeout")]
    assert repair_in(*lookup, calls("search", {"query": "weather tomorrow"}), returns("sunny")) is None
    assert repair_in(*failed, says("never mind")) is None


def test_another_program_that_does_the_same_is_a_repair() -> None:
    log = [calls("shell", {"command": "npm install"}), returns("npm ERR! code 1\nexit code 1")]
    repair = find_repairs(extract_actions(steps(*log, calls("shell", {"command": "pnpm install"}), returns("done"))))[0]
    assert (repair.failed.operation, repair.fixed.operation) == ("npm install", "pnpm")
    assert repair_in(*log, calls("shell", {"command": "cat package.json"}), returns("{}")) is None


@pytest.mark.parametrize("failed", ["apt-get install jq", "apt-get -y install jq"])
def test_the_name_and_the_options_of_the_replaced_program_do_not_matter(failed: str) -> None:
    log = [calls("shell", {"command": failed}), returns("Error: use apk instead")]
    assert repair_in(*log, calls("shell", {"command": "apk install jq"}), returns("ok")) is not None
    assert repair_in(*log, calls("shell", {"command": "apk install bc"}), returns("ok")) is None


def test_a_thought_without_a_result_is_no_cause() -> None:
    log = [
        calls("book", BOOKING),
        returns("Error: card declined"),
        calls("think", {"thought": "hm"}),
        returns(""),
        calls("book", BOOKING),
        returns("{}"),
    ]
    assert find_repairs(extract_actions(steps(*log)))[0].operations_between == ()


def test_options_of_only_the_working_command_are_reported() -> None:
    log = [
        calls("git", {"command": "git pull --rebase"}),
        returns("error: cannot pull with rebase: You have unstaged changes."),
        calls("git", {"command": "git pull --rebase --autostash"}),
        returns("exit code 0"),
    ]
    assert find_repairs(extract_actions(steps(*log)))[0].options_added == ("--autostash",)


def test_changes_of_long_values_are_shown_from_their_first_difference() -> None:
    before, after = "INSERT INTO members " * 10 + "VALUES (1)", "INSERT INTO members " * 10 + "VALUES (2)"
    (change,) = compare_arguments(before, after)
    assert change.argument == ""
    assert change.before.endswith("VALUES (1)")
    assert change.before.startswith("…")
    assert compare_arguments("same", "same") == ()


def test_an_argument_only_one_call_has_is_a_change() -> None:
    deep = '{"a": ' + "[" * 900 + "]" * 900 + "}"
    assert len(compare_arguments(deep, deep.replace("[]", "[1]"))) == 1
    assert compare_arguments('{"a": 1}', '{"b": [2]}') == (ArgumentChange("a", "1", ""), ArgumentChange("b", "", "[2]"))
