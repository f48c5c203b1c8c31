"""Accessibility of the console: screen reader, keyboard, phone, dark and light theme."""

from __future__ import annotations

import uuid
from pathlib import Path

import axe_playwright_python
import pytest
from playwright.sync_api import Browser, expect

from tests.console.reader import Reader
from tests.console.seeds import failed_push
from tests.console.test_texts import read_catalogue
from tests.console.windows import Stack, reading

pytestmark = pytest.mark.long

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
JAPANESE = read_catalogue("ja")
LONGEST_NAME = "longest-name-" + 115 * "x"
PAGES_OF_A_DATASET = (
    "#/overview?dataset={0}",
    "#/playbooks/{0}",
    "#/playbooks/{0}/history",
    "#/review/{0}",
    "#/search/{0}",
    "#/learn/{0}",
    "#/evidence/{0}",
    "#/guards/{0}",
    "#/trajectories/{0}",
    "#/trajectories/{0}/{0}",
)
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def addresses(stack: Stack) -> list[str]:
    """Every page, with a text that it shows when it is ready."""
    return [
        "#/overview?dataset=thousand",
        "#/keys",
        "#/inbox",
        "#/playbooks",
        f"#/playbooks/thousand?bullet={stack.thousand[1]}",
        "#/playbooks/thousand/history?revision=3",
        "#/review/queue",
        "#/search/thousand?q=locked database",
        "#/learn/thousand",
        "#/evidence/thousand",
        "#/guards/thousand",
        f"#/guards/thousand?bullet={stack.thousand[1]}",
        "#/trajectories/thousand",
        "#/trajectories/thousand/run-import?step=3",
        "#/executions",
        f"#/executions/{stack.running}",
        f"#/executions/{stack.ended}",
        "#/leaderboard",
        "#/leaderboard/rounds-1",
        "#/health",
        "#/api",
        "#/playbooks/nothing-here",
    ]


@pytest.mark.parametrize(("theme", "locale"), [("dark", "en-GB"), ("light", "en-GB"), ("light", "ja-JP")])
def test_axe_finds_no_fault(browser: Browser, stack: Stack, theme: str, locale: str) -> None:
    with reading(browser, stack.url, color_scheme=theme, locale=locale, reduced_motion="reduce") as reader:
        found = [fault for address in addresses(stack) for fault in faults(reader, address)]
        reader.expect_only_refusals("404")
    assert found == []


def test_axe_finds_no_fault_in_dialogs(reader: Reader) -> None:
    reader.open("#/playbooks/thousand/history?revision=1")
    reader.press("?")
    expect(reader.page.get_by_role("dialog")).to_be_visible()
    assert faults(reader, None) == []
    reader.press("Escape")
    reader.button("Restore…").click()
    expect(reader.page.get_by_role("dialog")).to_be_visible()
    assert faults(reader, None) == []


def test_axe_finds_no_fault_in_japanese_dialogs(browser: Browser, stack: Stack) -> None:
    """Open the dialogs in the dark theme, because those of the other test are light."""
    first, *_, last = stack.seeds.playbook("dialogs", 4)
    removal = [{"type": "DELTA_TYPE_DELETE", "bullet_id": last}]
    revision = stack.seeds.deltas("dialogs", removal, "remove")["revision"]
    with reading(browser, stack.url, locale="ja-JP", color_scheme="dark", reduced_motion="reduce") as reader:
        dialog = reader.page.get_by_role("dialog")
        votes = ("bullet.it_helped", "bullet.it_harmed")
        changes = ("bullet.edit", "bullet.remove", "bullet.restore_the_text_before_this")
        found = dialog_faults(reader, f"#/playbooks/dialogs?bullet={first}", *votes, *changes)
        found += dialog_faults(reader, "#/playbooks/dialogs", "playbook.add_a_lesson")
        reader.page.get_by_text(JAPANESE["dataset_actions.dataset"], exact=True).click()
        files = ("dataset_actions.import_2", "dataset_actions.export_2_2")
        whole = ("dataset_actions.policy", "dataset_actions.sections", "dataset_actions.delete_dataset")
        found += dialog_faults(reader, None, *files, *whole)
        found += dialog_faults(reader, f"#/playbooks/dialogs/history?revision={revision}", "common.add_again")
        found += dialog_faults(reader, "#/playbooks/dialogs/history?revision=1", "history.restore")
        found += dialog_faults(reader, "#/review/queue", "review.reject_2_2")
        found += dialog_faults(reader, "#/evidence/dialogs", "evidence.start_trials")
        stack.seeds.post("/v1/playbooks/dialogs/trials/start", {"request_id": str(uuid.uuid4())})
        found += dialog_faults(reader, "#/evidence/dialogs", "evidence.stop_trials")
        found += dialog_faults(reader, "#/trajectories/thousand/run-import", "trace.delete")
        answers = ("execution.add_information_2", "question.modify_2", "common.cancel")
        found += dialog_faults(reader, f"#/executions/{stack.running}", *answers)
        found += dialog_faults(reader, "#/keys", "keys.create_a_key")
        reader.button(JAPANESE["keys.create_a_key"]).click()
        dialog.get_by_label(JAPANESE["keys.name_of_its_user_or"]).fill("dialogs")
        dialog.get_by_role("button", name=JAPANESE["keys.create"]).click()
        expect(dialog.locator("pre")).to_be_visible()
        found += faults(reader, None)
        dialog.get_by_role("button", name=JAPANESE["keys.i_have_stored_it"]).click()
        found += dialog_faults(reader, None, "keys.revoke_2_2")
        reader.press("?")
        expect(dialog).to_contain_text(JAPANESE["main.these_keys"])
        found += faults(reader, None)
    assert found == []


def dialog_faults(reader: Reader, address: str | None, *buttons: str) -> list[str]:
    """Return the violations that axe finds on a page with each of the dialogs that buttons open.

    A button is named by the key of its text, and the page is Japanese.
    """
    if address is not None:
        reader.open(address)
    found = []
    for button in buttons:
        reader.button(JAPANESE[button].strip()).first.click()
        expect(reader.page.get_by_role("dialog")).to_be_visible()
        found += faults(reader, None)
        reader.press("Escape")
    return found


def faults(reader: Reader, address: str | None) -> list[str]:
    """Return the violations of any level that axe finds on a page."""
    if address is not None:
        reader.open(address)
        expect(reader.page.get_by_role("heading", level=1)).to_be_visible()
    if not reader.page.evaluate("'axe' in window"):
        reader.page.evaluate(AXE)
    found = reader.page.evaluate("axe.run({resultTypes: ['violations']}).then(({violations}) => violations)")
    template = "{address}: {id}: {html}"
    return [
        template.format(address=address, id=violation["id"], html=node["html"][:200])
        for violation in found
        for node in violation["nodes"]
    ]


def test_every_page_is_reached_by_keys(reader: Reader) -> None:
    reader.open("#/playbooks/thousand")
    for letter, heading in (
        ("i", "Inbox"),
        ("e", "Executions"),
        ("b", "Leaderboard"),
        ("h", "Settings"),
        ("o", "Overview"),
        ("k", "API keys and audit log"),
        ("p", "Playbooks"),
    ):
        reader.press("g", letter)
        expect(reader.page.get_by_role("heading", level=1)).to_have_text(heading)
    for letter, tab in (("r", "Review"), ("s", "Search"), ("l", "Learn"), ("t", "Trajectories"), ("d", "Guards")):
        reader.press("g", letter)
        expect(reader.main.locator(".tabs a[aria-current=page]").first).to_have_text(tab)


def test_a_playbook_is_read_by_keys_alone(reader: Reader) -> None:
    reader.open("#/playbooks/thousand")
    reader.press("j", "j", "j", "k")
    expect(reader.chosen_row).to_have_attribute("aria-posinset", "2")
    expect(reader.page.get_by_role("region", name="Bullet")).to_be_visible()
    reader.press("Escape")
    expect(reader.page.get_by_role("region", name="Bullet")).to_have_count(0)
    expect(reader.main.locator(".virtual")).to_be_focused()
    expect(reader.chosen_row).to_have_attribute("aria-setsize", "1000")  # the list is at its end
    reader.press("End")
    expect(reader.chosen_row).to_have_attribute("aria-posinset", "1000")
    reader.press("Home", "/")
    expect(reader.page.get_by_label("Filter bullets")).to_be_focused()
    reader.page.keyboard.type("j?g p")  # in a field, keys are text
    expect(reader.page.get_by_label("Filter bullets")).to_have_value("j?g p")
    reader.press("Escape", "?")
    expect(reader.page.get_by_role("dialog")).to_contain_text("next bullet")
    reader.press("Escape")
    expect(reader.page.get_by_role("dialog")).to_have_count(0)


def test_focus_is_seen_and_can_skip_the_navigation(reader: Reader) -> None:
    reader.open("#/playbooks")
    reader.press("Tab")
    skip = reader.page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    assert skip.evaluate("each => getComputedStyle(each).outlineStyle") == "solid"
    reader.press("Enter")
    expect(reader.main).to_be_focused()


def test_the_theme_is_kept(reader: Reader) -> None:
    reader.open("#/playbooks")
    reader.press("t", "t")
    reader.page.reload()
    reader.wait_until_loaded()
    assert reader.page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert reader.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 19, 21)"


def test_nothing_is_wider_than_a_phone(browser: Browser, stack: Stack) -> None:
    """Names have no spaces and the greatest length: pages that list what others made show such names, too."""
    stack.seeds.playbook(LONGEST_NAME, 4)
    stack.seeds.archive(LONGEST_NAME, failed_push(LONGEST_NAME))
    stack.seeds.rounds(LONGEST_NAME, teams=2, rounds=2, text=LONGEST_NAME)
    execution = stack.seeds.execution(LONGEST_NAME)
    pages = [page.format(LONGEST_NAME) for page in PAGES_OF_A_DATASET]
    pages += [
        f"#/executions/{execution}",
        f"#/leaderboard/{LONGEST_NAME}",
        f"#/leaderboard/rounds-1?with={LONGEST_NAME}",
    ]
    with reading(browser, stack.url, **PHONE) as reader:
        for address in addresses(stack) + pages:
            reader.open(address)
            wide = reader.page.evaluate("Math.max(document.documentElement.scrollWidth, main.scrollWidth) - innerWidth")
            assert wide <= 0, address
        reader.expect_only_refusals("404")


def test_a_phone_shows_the_current_tab(browser: Browser, stack: Stack) -> None:
    with reading(browser, stack.url, **PHONE) as reader:
        for address, tab in (("#/evidence/thousand", "Evidence"), ("#/playbooks/thousand", "Bullets")):
            reader.open(address)
            expect(reader.main.get_by_role("link", name=tab, exact=True)).to_be_in_viewport(ratio=1)


def test_tabs_of_a_japanese_phone_have_one_line(browser: Browser, stack: Stack) -> None:
    with reading(browser, stack.url, locale="ja-JP", **PHONE) as reader:
        reader.open("#/guards/thousand")
        tabs = reader.main.locator(".tabs a")
        heights = [box["height"] for tab in tabs.all() if (box := tab.bounding_box())]
        assert len(heights) == 8
        assert max(heights) < 50


def test_a_phone_has_the_navigation_in_a_drawer_and_one_panel_at_a_time(browser: Browser, stack: Stack) -> None:
    with reading(browser, stack.url, **PHONE) as reader:
        reader.open("#/playbooks/thousand")
        expect(reader.page.get_by_role("link", name="Settings")).to_be_hidden()
        reader.rows.nth(3).tap()
        expect(reader.page.get_by_role("region", name="Bullet")).to_be_visible()
        expect(reader.rows.first).to_be_hidden()
        reader.button("Close").tap()
        expect(reader.rows.first).to_be_visible()
        reader.button("Menu").tap()
        reader.page.get_by_role("link", name="Settings").tap()
        expect(reader.page.get_by_role("heading", level=1)).to_have_text("Settings")
        expect(reader.page.get_by_role("link", name="Settings")).to_be_hidden()
