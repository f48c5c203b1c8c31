"""The pages of the archive: trajectories, their steps, and the links to them from bullets and revisions."""

from __future__ import annotations

import re
import uuid

import pytest
from playwright.sync_api import Locator, expect

from tests.console.reader import Reader
from tests.console.seeds import failed_push, passed_sum
from tests.console.test_access import faults
from tests.console.windows import Stack

SUMS = 120
PAGE = 100
SOURCE = "run/push 1"  # as an id may be: with a slash and a space


@pytest.fixture(scope="module")
def dataset() -> str:
    """Return a dataset of this process only, because all processes of a test run share the stack."""
    return f"archived-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def bullet(stack: Stack, dataset: str) -> str:
    """A bullet that was learned from a failed push, in a dataset with that push and many sums; its id."""
    add = {
        "type": "DELTA_TYPE_ADD",
        "section": "troubleshooting",
        "content": "Pull and rebase before a push.",
        "sources": [{"trajectory_id": SOURCE, "steps": [2, 3]}],
    }
    learned = str(stack.seeds.deltas(dataset, [add], "push")["operations"][0]["bullet_id"])
    used = {"used_bullet_ids": [learned, "b-removed"], "cited_bullet_ids": [learned]}
    usage = {"input_tokens": "1000", "output_tokens": "200", "cost_usd": 0.0034}
    stack.seeds.archive(dataset, {**failed_push(SOURCE), "usage": usage}, [learned])
    stack.seeds.archive(dataset, {**failed_push("push-2"), **used, "query": "Push again"})
    for number in range(SUMS):
        stack.seeds.archive(dataset, passed_sum(number))
    return learned


def step(reader: Reader, index: int) -> Locator:
    """Return a step of the trajectory that is open."""
    return reader.main.locator(f"[data-step='{index}']")


def test_trajectories_are_listed_in_pages(reader: Reader, dataset: str, bullet: str) -> None:
    reader.open(f"#/playbooks/{dataset}")
    reader.main.get_by_role("link", name="Trajectories").click()
    reader.sees(f"{PAGE} trajectories on this page")
    expect(reader.rows.first).to_contain_text(f"Add {SUMS - 1} and 1")
    expect(reader.rows.first).to_contain_text("2 steps")
    assert faults(reader, None) == []
    reader.page.get_by_role("link", name="Next page").click()
    reader.sees(f"{SUMS + 2 - PAGE} trajectories on this page")
    reader.press("End")
    reader.page.get_by_role("link", name="First page").click()
    reader.sees(f"{PAGE} trajectories on this page")


def test_trajectories_are_filtered_and_the_address_has_the_filters(reader: Reader, dataset: str, bullet: str) -> None:
    reader.open(f"#/trajectories/{dataset}")
    reader.page.get_by_label("Status").select_option("failure")
    reader.sees("2 trajectories")
    reader.page.get_by_label("Tool", exact=True).fill("add")
    reader.press("Enter")
    reader.sees("No trajectory found")
    reader.page.get_by_role("link", name="Show all trajectories").click()
    reader.page.get_by_label("Error contains").fill("FAILED to push")
    reader.press("Enter")
    reader.sees("2 trajectories")
    expect(reader.rows.first).to_contain_text("git push: error: failed to push some refs")
    reader.page.get_by_label("Bullet id").fill(bullet)
    reader.press("Enter")
    reader.sees("1 trajectory")
    expect(reader.rows.first).to_contain_text("Push the fix")
    for relation in ("served", "cited"):
        reader.page.get_by_label("Relation to the bullet").select_option(relation)
        expect(reader.rows.first).to_contain_text("Push again")
    expect(reader.page).to_have_url(re.compile(f"error=FAILED\\+to\\+push&cited={bullet}$"))
    reader.page.reload()
    reader.sees("1 trajectory")
    expect(reader.page.get_by_label("Bullet id")).to_have_value(bullet)


def test_a_trajectory_shows_its_steps_calls_errors_and_bullets(reader: Reader, dataset: str, bullet: str) -> None:
    reader.open(f"#/trajectories/{dataset}?status=failure")
    reader.rows.filter(has_text="Push the fix").click()
    expect(reader.main.locator(".trace-step")).to_have_count(7)
    expect(step(reader, 0)).to_contain_text("System")
    expect(step(reader, 2)).to_contain_text("Calls git")
    expect(step(reader, 2)).to_contain_text('"timeout": 30')
    expect(step(reader, 3)).to_contain_text("for the call of step 2")
    expect(reader.main.locator(".trace-error")).to_have_count(1)
    expect(step(reader, 3).locator(".state-bad")).to_have_text("error")
    facts = reader.main.locator(".facts")
    expect(facts).to_contain_text("test report")
    expect(facts).to_contain_text("1,000 for input (– cached), 200 for output")
    expect(facts).to_contain_text("$0.0034")
    expect(facts).to_contain_text("step 3 git push: error: failed to push some refs")
    assert faults(reader, None) == []
    step(reader, 3).get_by_role("link", name="Pull and rebase before a push.").click()
    expect(reader.page.get_by_role("region", name="Bullet")).to_contain_text("Pull and rebase before a push.")


def test_served_and_cited_bullets_are_links(reader: Reader, dataset: str, bullet: str) -> None:
    reader.open(f"#/trajectories/{dataset}/push-2")
    lessons = reader.main.locator(".facts").get_by_role("link", name="Pull and rebase")
    expect(lessons).to_have_count(2)
    expect(reader.main.locator(".facts")).to_contain_text("b-removed")
    lessons.first.click()
    expect(reader.page.get_by_role("region", name="Bullet")).to_contain_text("Pull and rebase")


def test_the_sources_of_a_bullet_lead_to_the_steps(reader: Reader, dataset: str, bullet: str) -> None:
    reader.open(f"#/playbooks/{dataset}?bullet={bullet}")
    reader.page.get_by_role("link", name=f"step 3 of {SOURCE}").click()
    expect(step(reader, 3)).to_have_attribute("aria-current", "true")
    expect(step(reader, 3)).to_be_in_viewport()
    expect(step(reader, 3)).to_be_focused()
    expect(reader.page).to_have_url(re.compile(rf"#/trajectories/{dataset}/run%2Fpush%201\?step=3$"))


def test_the_sources_of_a_pending_change_lead_to_the_steps(reader: Reader, stack: Stack) -> None:
    sources = [{"trajectory_id": "reviewed-1", "steps": [5]}]
    stack.seeds.queue("reviewed", 3, sources)
    stack.seeds.archive("reviewed", failed_push("reviewed-1"))
    reader.open("#/review/reviewed")
    reader.rows.filter(has_text="invoice first").click()
    side = reader.page.get_by_role("region", name="Change")
    expect(side.get_by_role("link", name="run-proposal")).to_be_visible()
    side.get_by_role("link", name="step 5 of reviewed-1").click()
    expect(step(reader, 5)).to_have_attribute("aria-current", "true")
    expect(step(reader, 5)).to_be_in_viewport()


def test_a_result_is_linked_to_the_last_call_with_its_id(reader: Reader, stack: Stack) -> None:
    """Some agents number the calls of each turn anew."""
    twice = passed_sum(7)
    stack.seeds.archive("numbered-anew", {**twice, "id": "anew", "steps": twice["steps"] * 2})
    reader.open("#/trajectories/numbered-anew/anew")
    expect(step(reader, 1).get_by_role("link", name="step 0")).to_be_visible()
    expect(step(reader, 3).get_by_role("link", name="step 2")).to_be_visible()


def test_a_step_far_down_is_shown_and_the_others_on_demand(reader: Reader, stack: Stack) -> None:
    thoughts = [{"role": "STEP_ROLE_ASSISTANT", "content": f"Thought {number}. " * 30} for number in range(450)]
    stack.seeds.archive(
        "long", {**passed_sum(1), "id": "long-1", "steps": [*thoughts, {**thoughts[0], "content": "x" * 9000}]}
    )
    reader.open("#/trajectories/long/long-1?step=390")
    expect(step(reader, 390)).to_be_in_viewport()
    expect(reader.main.locator(".trace-step")).to_have_count(200)
    reader.button("Show steps 400 to 450").click()
    expect(step(reader, 400)).to_be_in_viewport()
    expect(step(reader, 390)).to_have_count(0)
    reader.button("Show all 9,000 characters").click()
    expect(step(reader, 450)).to_contain_text("x" * 9000)
    reader.open("#/trajectories/long/long-1?step=451")
    reader.sees("There is no step 451.")


def test_a_trajectory_is_read_by_keys_alone(reader: Reader, dataset: str, bullet: str) -> None:
    reader.open(f"#/trajectories/{dataset}?status=failure")
    reader.press("j", "Enter")
    expect(reader.main.locator(".trace-step")).to_have_count(7)
    reader.press("j", "j", "k")
    expect(step(reader, 0)).to_be_focused()
    reader.press("e")
    expect(step(reader, 3)).to_have_attribute("aria-current", "true")
    expect(reader.main.locator("[aria-current=true]")).to_have_count(1)
    reader.press("Escape")
    expect(reader.rows.first).to_be_visible()


def test_a_trajectory_is_deleted_after_a_question(reader: Reader, stack: Stack) -> None:
    stack.seeds.archive("cleared", failed_push("secret"))
    stack.seeds.archive("cleared", passed_sum(1))
    dialog = reader.page.get_by_role("dialog")
    reader.open("#/trajectories/cleared/secret")
    reader.button("Delete…").click()
    assert faults(reader, None) == []
    dialog.get_by_role("button", name="Back").click()
    reader.sees("Push the fix of the parser")
    reader.button("Delete…").click()
    dialog.get_by_role("button", name="Delete").click()
    reader.sees("1 trajectory")
    expect(reader.main.get_by_text("Push the fix")).to_have_count(0)
    reader.open("#/trajectories/cleared/secret")
    reader.sees("Deleted")
    reader.expect_only_refusals("404")


def test_what_is_not_archived_is_named(reader: Reader, dataset: str, bullet: str) -> None:
    reader.open(f"#/trajectories/{dataset}/never-stored")
    reader.sees("Not in the archive")
    reader.open("#/trajectories/nothing-here")
    reader.sees("No trajectories")
    reader.expect_only_refusals("404")
