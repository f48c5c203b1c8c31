"""Change playbooks and datasets in the console, manage keys, and compare revisions and submissions."""

from __future__ import annotations

import json
import re
from pathlib import Path

from playwright.sync_api import Locator, Route, expect

from tests.console.reader import Reader
from tests.console.windows import Stack


def open_menu(reader: Reader, item: str) -> Locator:
    """Choose an item of the menu of the dataset; return the dialog that it opens."""
    reader.page.get_by_text("Dataset…", exact=True).click()
    reader.button(item).click()
    return reader.page.get_by_role("dialog")


def test_a_dialog_keeps_its_values_until_they_are_saved(reader: Reader, stack: Stack) -> None:
    """Another person changes the bullet, then the gateway cannot be reached; the typed text survives both."""
    first, second, *_ = stack.seeds.playbook("edited-twice", 4)
    reader.open(f"#/playbooks/edited-twice?bullet={first}")
    reader.button("Edit…").click()
    dialog = reader.page.get_by_role("dialog")
    lesson = dialog.get_by_label("Lesson")
    lesson.fill("A text that took an hour.")
    other = {"type": "DELTA_TYPE_UPDATE", "bullet_id": first, "content": "Another text."}
    stack.seeds.deltas("edited-twice", [other], "meanwhile")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Not applied")
    expect(lesson).to_have_value("A text that took an hour.")
    dialog.get_by_role("button", name="Back").click()
    reader.open(f"#/playbooks/edited-twice?bullet={second}")
    reader.button("Edit…").click()
    lesson.fill("A text that took a day.")
    reader.page.context.set_offline(True)
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_have_text("The gateway cannot be reached.")
    reader.page.context.set_offline(False)
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    expect(reader.page.get_by_role("region", name="Bullet").locator(".lead")).to_have_text("A text that took a day.")
    reader.expect_only_refusals("ERR_INTERNET_DISCONNECTED")


def test_a_dialog_saves_once(reader: Reader, stack: Stack) -> None:
    stack.seeds.playbook("saved-once", 2)
    reader.open("#/playbooks/saved-once")
    reader.button("Add a lesson…").click()
    dialog = reader.page.get_by_role("dialog")
    dialog.get_by_label("Lesson").fill("Close the file after the last line.")
    requests: list[Route] = []
    reader.page.route("**/v1/playbooks/saved-once/deltas", lambda route: requests.append(route))
    save = dialog.get_by_role("button", name="Add")
    save.click()
    expect(save).to_be_disabled()
    dialog.get_by_label("Why").press("Enter")
    dialog.get_by_label("Why").press("Escape")
    expect(dialog).to_have_count(0)
    (request,) = requests
    request.continue_()
    reader.sees("3 bullets · revision")
    expect(reader.page.get_by_role("region", name="Bullet")).to_contain_text("Learned fromno trajectory")


def test_the_outcome_of_an_edit_is_named(reader: Reader, stack: Stack) -> None:
    first, second, *_ = stack.seeds.playbook("outcomes", 4)
    toasts = reader.page.locator("#toasts")
    dialog = reader.page.get_by_role("dialog")
    reader.open(f"#/playbooks/outcomes?bullet={first}")
    reader.button("Remove…").click()
    dialog.get_by_role("button", name="Remove").click()
    expect(toasts).to_contain_text(f"{first}: removed in revision 4.")
    stack.seeds.set_policy("outcomes", "REVIEW_MODE_REVIEW")
    reader.open(f"#/playbooks/outcomes?bullet={second}")
    reader.button("Edit…").click()
    dialog.get_by_label("Lesson").fill("A text that a colleague reads first.")
    dialog.get_by_role("button", name="Save").click()
    expect(toasts).to_contain_text("Waits for review: every change of this dataset waits for review.")
    toasts.get_by_role("link", name="Review").click()
    expect(reader.page).to_have_url(re.compile("#/review/outcomes$"))


def test_only_a_press_beside_a_dialog_closes_it(reader: Reader, stack: Stack) -> None:
    """A text is selected with the mouse from within the dialog to a place beside it."""
    stack.seeds.playbook("selected", 2)
    reader.open("#/playbooks/selected")
    reader.button("Add a lesson…").click()
    dialog = reader.page.get_by_role("dialog")
    lesson = dialog.get_by_label("Lesson")
    lesson.fill("A long text.")
    lesson.hover()
    mouse = reader.page.mouse
    mouse.down()
    mouse.move(5, 400, steps=5)
    mouse.up()
    expect(lesson).to_have_value("A long text.")
    box = dialog.bounding_box()
    assert box is not None
    mouse.click(box["x"] + 5, box["y"] + 5)  # the padding of the dialog
    expect(lesson).to_have_value("A long text.")
    lesson.fill("")
    mouse.click(5, 400)
    expect(dialog).to_have_count(0)


def test_only_its_button_closes_a_dialog_with_a_typed_text(reader: Reader, stack: Stack) -> None:
    stack.seeds.playbook("typed", 2)
    reader.open("#/playbooks/typed")
    reader.button("Add a lesson…").click()
    dialog = reader.page.get_by_role("dialog")
    lesson = dialog.get_by_label("Lesson")
    lesson.fill("A text that took an hour.")
    reader.page.mouse.click(5, 400)
    expect(dialog.get_by_role("alert")).to_contain_text("Your changes are not sent.")
    reader.press("Escape", "Escape")
    expect(lesson).to_have_value("A text that took an hour.")
    dialog.get_by_role("button", name="Back").click()
    expect(dialog).to_have_count(0)


def test_an_address_opens_any_bullet_or_says_that_it_is_missing(reader: Reader, stack: Stack) -> None:
    """The first page of bullets has 50."""
    reader.open(f"#/playbooks/thousand?bullet={stack.thousand[899]}")
    bullet = reader.page.get_by_role("region", name="Bullet")
    expect(bullet).to_contain_text(stack.thousand[899])
    expect(reader.chosen_row).to_have_attribute("aria-posinset", "900")
    expect(reader.chosen_row).to_be_in_viewport()
    reader.open("#/playbooks/thousand?bullet=zz-99999")
    expect(bullet).to_contain_text("There is no bullet zz-99999")
    reader.open(f"#/playbooks/thousand?bullet={stack.thousand[899]}&q=nothing-has-this")
    expect(bullet).to_contain_text(stack.thousand[899])


def test_a_person_votes_on_a_bullet(reader: Reader, stack: Stack) -> None:
    stack.seeds.playbook("voted", 4)
    reader.open("#/playbooks/voted")
    reader.rows.first.click()
    bullet = reader.page.get_by_role("region", name="Bullet")
    votes = bullet.locator(".votes").first
    expect(votes).to_have_attribute("aria-label", "0 helpful, 0 harmful")
    reader.button("It helped…").click()
    dialog = reader.page.get_by_role("dialog")
    dialog.get_by_label("Why").fill("it saved an hour")
    dialog.get_by_role("button", name="Vote").click()
    expect(votes).to_have_attribute("aria-label", "1 helpful, 0 harmful")
    expect(bullet).to_contain_text("it saved an hour")


def test_a_vote_whose_response_was_lost_counts_once(reader: Reader, stack: Stack) -> None:
    stack.seeds.playbook("voted-once", 4)
    reader.open("#/playbooks/voted-once")
    reader.rows.first.click()
    reader.button("It helped…").click()
    dialog = reader.page.get_by_role("dialog")

    def lose_response(route: Route) -> None:
        route.fetch()
        route.abort()

    reader.page.route("**/v1/playbooks/voted-once/deltas", lose_response, times=1)
    dialog.get_by_role("button", name="Vote").click()
    expect(dialog.get_by_role("alert")).to_have_text("The gateway cannot be reached.")
    dialog.get_by_role("button", name="Vote").click()
    votes = reader.page.get_by_role("region", name="Bullet").locator(".votes").first
    expect(votes).to_have_attribute("aria-label", "1 helpful, 0 harmful")
    reader.expect_only_refusals("ERR_FAILED")


def test_an_earlier_text_and_a_removed_bullet_come_back(reader: Reader, stack: Stack) -> None:
    ids = stack.seeds.playbook("brought-back", 4)
    dialog = reader.page.get_by_role("dialog")
    reader.open(f"#/playbooks/brought-back?bullet={ids[0]}")
    bullet = reader.page.get_by_role("region", name="Bullet")
    expect(bullet.locator(".lead")).to_contain_text("Shorter")
    bullet.get_by_role("button", name="Restore the text before this change…").click()
    dialog.get_by_role("button", name="Restore").click()
    expect(bullet.locator(".lead")).to_contain_text("Check the invoice before the first call")
    reader.button("Remove…").click()
    dialog.get_by_role("button", name="Remove").click()
    reader.sees("3 bullets · revision 5")
    reader.open("#/playbooks/brought-back/history?revision=5")
    reader.button("Add again…").click()
    dialog.get_by_role("button", name="Add again").click()
    reader.sees("4 bullets · revision 6")


def test_a_playbook_is_exported_and_imported(reader: Reader, stack: Stack, tmp_path: Path) -> None:
    stack.seeds.playbook("exported", 4)
    stack.seeds.playbook("imported", 2)
    reader.open("#/playbooks/exported")
    dialog = open_menu(reader, "Export…")
    with reader.page.expect_download() as started:
        dialog.get_by_role("button", name="Export").click()
    file = tmp_path / started.value.suggested_filename
    started.value.save_as(file)
    assert file.name == "exported.json"
    assert "Shorter: check" in json.dumps(json.loads(file.read_text(encoding="utf-8")))
    reader.open("#/playbooks/imported")
    dialog = open_menu(reader, "Import…")
    dialog.get_by_label("File").set_input_files(file)
    dialog.get_by_label("Replace the whole playbook").check()
    dialog.get_by_role("button", name="Import").click()
    reader.sees("4 bullets · revision")


def test_the_policy_of_a_dataset_is_changed(reader: Reader, stack: Stack) -> None:
    stack.seeds.playbook("governed", 2)
    reader.open("#/playbooks/governed")
    dialog = open_menu(reader, "Policy…")
    dialog.get_by_label("Review").select_option("Every change waits for review")
    dialog.get_by_label("Harmful votes that retire a bullet").fill("7")
    dialog.get_by_role("button", name="Save").click()
    expect(reader.page.locator("#toasts")).to_contain_text("The policy is saved.")
    reader.button("Policy…").click()
    expect(dialog.get_by_label("Review")).to_have_value("REVIEW_MODE_REVIEW")
    expect(dialog.get_by_label("Harmful votes that retire a bullet")).to_have_value("7")
    expect(dialog.get_by_label("Days after which a pending change expires")).to_have_value("30")
    dialog.get_by_role("button", name="Back").click()
    reader.button("Sections…").click()
    expect(dialog).to_contain_text("Sections of governed")


def test_values_beyond_a_limit_are_not_sent(reader: Reader, stack: Stack) -> None:
    """The browser names the field and the rule; a request that the gateway refuses would be a complaint."""
    stack.seeds.playbook("limited", 2)
    reader.open("#/playbooks/limited")
    dialog = open_menu(reader, "Policy…")
    for label, wrong, right in (
        ("Maximum number of active bullets", "2.5", "2"),
        ("Similarity from which bullets", "7", "0.9"),
        ("Harmful votes that retire a bullet", "100001", "100000"),
        ("Days after which a pending change expires", "0", "0.5"),
    ):
        field = dialog.get_by_label(label)
        field.fill(wrong)
        dialog.get_by_role("button", name="Save").click()
        assert field.evaluate("field => field.matches(':invalid')")
        field.fill(right)
        assert field.evaluate("field => field.matches(':valid')")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    reader.open("#/keys")
    reader.button("Create a key…").click()
    dialog.get_by_label("Name of its user").fill("past")
    dialog.get_by_label("Expires on (optional)").fill("2020-01-01")
    dialog.get_by_role("button", name="Create").click()
    assert dialog.get_by_label("Expires on (optional)").evaluate("field => field.matches(':invalid')")


def test_two_revisions_are_compared_by_clicking(reader: Reader) -> None:
    reader.open("#/playbooks/thousand/history")
    reader.rows.nth(0).locator("[data-mark]").click()
    reader.rows.nth(2).locator("[data-mark]").click()
    expect(reader.page.get_by_role("region", name="Revision")).to_contain_text("Revision 1 → 3")


def test_two_submissions_are_compared(reader: Reader, stack: Stack) -> None:
    stack.seeds.rounds("rounds-2", teams=2, rounds=2, text="A **clear** submission.")
    reader.open("#/leaderboard/rounds-2")
    reader.page.get_by_text("Compare two submissions").click()
    scores = reader.page.get_by_role("region", name="Scores of both")
    expect(scores).to_contain_text("Coverage")
    expect(reader.main.locator(".pair .card")).to_have_count(2)
    reader.page.get_by_label("Second submission").select_option(index=0)
    expect(reader.main.locator(".pair .card").nth(1)).to_contain_text("Team 0, round 1")
    reader.sees("Both texts are the same.")


def test_two_executions_of_rounds_are_compared(reader: Reader, stack: Stack) -> None:
    stack.seeds.rounds("rounds-before", teams=1, rounds=1, text="A first text.")
    stack.seeds.rounds("rounds-after", teams=2, rounds=2, text="A second text.")
    reader.open("#/leaderboard/rounds-after")
    other = reader.page.get_by_label("Compare with another execution")
    other.select_option(label="rounds-before: Team 0, 41.00")
    expect(reader.page.get_by_role("region", name="Ranking of rounds-before")).to_contain_text("41.00")
    expect(reader.page.get_by_role("region", name="Ranking of rounds-after")).to_contain_text("Team 1")
    reader.page.get_by_text("Compare two submissions").click()
    expect(reader.main.locator(".pair .card").nth(0)).to_contain_text("rounds-after")
    expect(reader.main.locator(".pair .card").nth(1)).to_contain_text("rounds-before")
    expect(reader.main.locator(".comparison .diff")).to_contain_text("second")
    other.select_option(label="Compare with…")
    expect(reader.page.get_by_role("region", name="Ranking of rounds-before")).to_have_count(0)


def test_a_key_is_created_shown_once_and_revoked(reader: Reader) -> None:
    dialog = reader.page.get_by_role("dialog")
    reader.open("#/keys")
    reader.sees("This gateway requires no credentials")
    reader.button("Create a key…").click()
    dialog.get_by_label("Name of its user or deployment").fill("ci-agent")
    dialog.get_by_label("Review: decide on pending changes").check()
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.locator("pre")).to_have_text(re.compile(r"^\S{20,}$"))
    reader.press("Escape", "Escape")
    reader.page.mouse.click(5, 400)
    expect(dialog.locator("pre")).to_be_visible()
    dialog.get_by_role("button", name="I have stored it").click()
    row = reader.page.get_by_role("row", name="ci-agent")
    expect(row).to_contain_text(re.compile("read.*learn.*review"))
    row.get_by_role("button", name="Revoke…").click()
    dialog.get_by_role("button", name="Revoke").click()
    expect(row).to_contain_text("revoked")
    reader.page.get_by_role("tab", name="Audit log").click()
    expect(reader.page.get_by_role("tabpanel", name="Audit log")).to_contain_text(
        re.compile("CreateKey|No audit records")
    )


def test_all_pages_of_keys_are_listed(reader: Reader) -> None:
    def answer(route: Route) -> None:
        is_first = "page_token" not in route.request.url
        label = "first" if is_first else "second"
        keys = [{"id": "1", "label": label, "tenant": "", "scopes": [], "created_by": "local"}]
        route.fulfill(json={"keys": keys, "next_page_token": "2" if is_first else ""})

    reader.page.route("**/v1/access/keys?*", answer)
    reader.open("#/keys")
    expect(reader.page.get_by_role("row", name="first")).to_be_visible()
    expect(reader.page.get_by_role("row", name="second")).to_be_visible()


def test_the_settings_show_models_and_version(reader: Reader) -> None:
    reader.open("#/health")
    reader.sees("none: hansei works by built-in rules")
    facts = reader.main.locator(".facts").first
    expect(facts).to_contain_text(re.compile(r"Version\d+\.\d+"))
    expect(facts).to_contain_text("hashing-v1-1536")
    headings = reader.page.get_by_role("region", name="Indexes").get_by_role("columnheader")
    expect(headings.nth(1)).to_have_text("Indexed bullets")
