"""The page of guards: targets written beside their backtest, modes, pins, and decisions."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.console.reader import Reader
from tests.console.seeds import failed_push, passed_sum
from tests.console.test_access import faults
from tests.console.windows import Stack

TARGET = "call.tool == 'git' && !succeeded('read_file')"
"""True for the push of `failed_push` before it reads how to contribute, and for no call of `passed_sum`."""


def test_a_guard_is_written_beside_its_backtest(reader: Reader, stack: Stack) -> None:
    stack.seeds.playbook("guarded", 4)
    for trajectory in (failed_push("push-1"), passed_sum(1), passed_sum(2)):
        stack.seeds.archive("guarded", trajectory)
    reader.open("#/guards/guarded")
    reader.sees("No guards yet")
    reader.button("Write a guard…").click()
    detail = reader.page.get_by_role("region", name="Guard", exact=True)
    backtest = detail.get_by_role("region", name="Backtest")
    detail.get_by_role("textbox", name="Lesson").fill("Read CONTRIBUTING.md before a push.")
    target = detail.get_by_role("textbox", name="Target")
    target.fill("call.tool = 'git'")
    expect(detail.get_by_role("alert")).to_contain_text("Target: ")
    expect(backtest).to_contain_text("Correct the target to test it.")
    reader.expect_only_refusals("400")
    target.fill(TARGET)
    expect(backtest).to_contain_text("1 of 1 failed trajectory")
    expect(backtest).to_contain_text("0 of 2 passed trajectories")
    expect(detail.get_by_role("alert")).to_be_empty()
    assert faults(reader, None) == []
    detail.get_by_role("button", name="Save").click()
    reader.sees("1 guard")
    expect(detail).to_contain_text("shadow")

    detail.get_by_role("combobox").select_option("TARGET_MODE_DENY")
    detail.get_by_label("Pin the mode").check()
    detail.get_by_role("button", name="Save").click()
    expect(detail.get_by_role("alert")).to_contain_text("reason")  # a pin says why
    reader.expect_only_refusals("400")
    detail.get_by_role("textbox", name="Why").fill("agreed with the maintainers")
    detail.get_by_role("button", name="Save").click()
    expect(reader.rows.first).to_contain_text("deny")
    expect(reader.rows.first).to_contain_text("pinned")

    backtest.get_by_role("link", name="push-1, step 2").click()
    expect(reader.page).to_have_url(re.compile("#/trajectories/guarded/push-1"))
    reader.sees("git push")


def test_a_guard_that_is_not_saved_is_kept_while_others_are_read(reader: Reader, stack: Stack) -> None:
    first, second, *_ = stack.seeds.playbook("guards-kept", 4)
    target = {"expression": TARGET, "mode": "TARGET_MODE_SHADOW"}
    guards = [{"type": "DELTA_TYPE_UPDATE", "bullet_id": bullet, "target": target} for bullet in (first, second)]
    stack.seeds.deltas("guards-kept", guards, "agreed")
    stack.seeds.archive("guards-kept", passed_sum(1))
    reader.open("#/guards/guards-kept")
    expect(reader.rows).to_have_count(2)
    detail = reader.page.get_by_role("region", name="Guard", exact=True)
    why = detail.get_by_role("textbox", name="Why")
    reader.rows.first.click()
    why.fill("A reason that took an hour.")
    reader.rows.last.click()
    expect(why).to_have_value("")
    reader.press("Escape")
    expect(detail).to_have_count(0)
    reader.rows.first.click()
    expect(why).to_have_value("A reason that took an hour.")
    detail.get_by_role("button", name="Save").click()
    expect(why).to_have_value("")


def test_a_bullet_gets_a_guard_and_loses_it(reader: Reader, stack: Stack) -> None:
    first, *_ = stack.seeds.playbook("guarded-later", 4)
    reader.open(f"#/playbooks/guarded-later?bullet={first}")
    reader.page.get_by_role("link", name="Add a guard…").click()
    detail = reader.page.get_by_role("region", name="Guard", exact=True)
    detail.get_by_role("textbox", name="Target").fill(TARGET)
    expect(detail).to_contain_text("The archive has no trajectories of this dataset")
    detail.get_by_role("button", name="Save").click()
    expect(reader.rows).to_have_count(1)
    expect(reader.rows.first).to_contain_text(TARGET)
    detail.get_by_role("button", name="Remove the target").click()
    reader.sees("No guards yet")
    reader.expect_only_refusals("404")  # the editor also tests the saved target against the empty archive


def test_the_history_shows_changes_of_guards(reader: Reader, stack: Stack) -> None:
    """Nobody voted: the guard of a bullet was set, and a restoration removed it."""
    first, *_ = stack.seeds.playbook("guards-changed", 4)
    target = {"expression": TARGET, "mode": "TARGET_MODE_DENY", "pinned": True}
    guard = {"type": "DELTA_TYPE_UPDATE", "bullet_id": first, "target": target}
    revision = stack.seeds.deltas("guards-changed", [guard], "agreed")["revision"]
    reader.open(f"#/playbooks/guards-changed/history?revision={revision}")
    detail = reader.page.get_by_role("region", name="Revision", exact=True)
    expect(detail).to_contain_text("1 guard changed")
    expect(detail.locator(".card")).to_contain_text(f"Guard: no guard → denypinned {TARGET}")
    reader.open("#/playbooks/guards-changed/history?revision=3")
    reader.button("Restore…").click()
    dialog = reader.page.get_by_role("dialog")
    dialog.get_by_label("Why").fill("agreed otherwise")
    dialog.get_by_role("button", name="Restore").click()
    expect(detail).to_contain_text("Revision 5")
    expect(detail.locator(".card")).to_contain_text(f"Guard: denypinned {TARGET} → no guard")
    reader.open(f"#/playbooks/guards-changed?bullet={first}")
    history = reader.page.get_by_role("region", name="Bullet").locator(".story")
    expect(history).to_contain_text(f"Guard: denypinned {TARGET} → no guard")


def test_a_pending_guard_is_shown_before_the_decision(reader: Reader, stack: Stack) -> None:
    """An edit of a guard has no text, and keeps that of its bullet."""
    first, *_ = stack.seeds.playbook("guards-pending", 4)
    stack.seeds.set_policy("guards-pending", "REVIEW_MODE_REVIEW")
    target = {"expression": TARGET, "mode": "TARGET_MODE_DENY", "pinned": True}
    add = {"type": "DELTA_TYPE_ADD", "section": "apis_to_use", "content": "Read the rules first.", "target": target}
    edit = {"type": "DELTA_TYPE_UPDATE", "bullet_id": first, "target": target}
    stack.seeds.deltas("guards-pending", [add, edit], "agreed")
    reader.open("#/review/guards-pending")
    side = reader.page.get_by_role("region", name="Change")
    for row in (reader.rows.filter(has_text="check"), reader.rows.filter(has_text="Read the rules first.")):
        row.click()
        expect(side).to_contain_text(f"Guard: no guard → denypinned {TARGET}")
        expect(side.locator("del")).to_have_count(0)


def test_a_target_that_is_too_long_is_refused_and_not_cut(reader: Reader, stack: Stack) -> None:
    first, *_ = stack.seeds.playbook("guarded-at-length", 4)
    reader.open(f"#/guards/guarded-at-length?bullet={first}")
    detail = reader.page.get_by_role("region", name="Guard", exact=True)
    text = f"call.tool == '{'x' * 2000}'"
    target = detail.get_by_role("textbox", name="Target")
    target.click()
    reader.page.keyboard.insert_text(text)
    expect(target).to_have_value(text)
    message = "Target: it has 2,015 characters, and at most 2,000 are allowed."
    expect(detail.get_by_role("alert")).to_have_text(message)
    detail.get_by_role("button", name="Save").click()
    expect(detail.get_by_role("alert")).to_have_text(message)
