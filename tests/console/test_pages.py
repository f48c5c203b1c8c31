"""Each page of the console with a thousand bullets behind it."""

from __future__ import annotations

import json
import re
import uuid

import httpx
from playwright.sync_api import Route, expect

from tests.console.reader import TWO_FRAMES, Reader
from tests.console.seeds import comparison
from tests.console.windows import BULLETS, Stack


def test_the_start_page_is_the_overview(reader: Reader, stack: Stack) -> None:
    reader.page.goto(stack.url)
    expect(reader.page).to_have_url(f"{stack.url}/console/#/overview")
    reader.open("#/playbooks")
    reader.sees("thousand")
    reader.sees("1,000 bullets")


def test_a_playbook_shows_bullets_with_counters_section_and_provenance(reader: Reader, stack: Stack) -> None:
    reader.open("#/playbooks/thousand")
    reader.sees("1,000 bullets · revision 3")
    expect(reader.rows.first).to_have_attribute("aria-setsize", str(BULLETS))
    reader.rows.nth(1).click()
    detail = reader.page.get_by_role("region", name="Bullet")
    expect(detail).to_contain_text("apis_to_use")
    expect(detail.locator(".votes").first).to_have_attribute("aria-label", "1 helpful, 0 harmful")
    expect(detail).to_contain_text("run-import")  # provenance
    expect(detail).to_contain_text("run-shorter")


def test_a_bullet_shows_its_history(reader: Reader, stack: Stack) -> None:
    reader.open(f"#/playbooks/thousand?bullet={stack.thousand[1]}")
    story = reader.page.get_by_role("region", name="Bullet").locator(".story > li")
    expect(story).to_have_count(3)
    expect(story.nth(0).locator("ins")).to_contain_text("Shorter")
    expect(story.nth(1)).to_contain_text("1 helpful vote")
    expect(story.nth(1).get_by_role("link", name=re.compile("^run-"))).to_be_visible()
    expect(story.nth(2)).to_contain_text("added")


def test_moving_on_quickly_reads_only_the_last_bullet(reader: Reader, stack: Stack) -> None:
    requested: list[str] = []
    reader.page.on("request", lambda request: requested.append(request.url))
    reader.open("#/playbooks/thousand")
    press = "for (let i = 0; i < 10; i += 1) document.body.dispatchEvent(new KeyboardEvent('keydown', %s))"
    reader.page.evaluate(press % "{ key: 'j', bubbles: true }")
    expect(reader.page.get_by_role("region", name="Bullet").locator(".story > li").first).to_be_visible()
    read = [url.split("/bullets/")[1].split("/")[0] for url in requested if "/bullets/" in url and "/history" in url]
    assert read == [stack.thousand[9]]
    assert len([url for url in requested if "/effects?" in url]) == 1


def test_rows_stay_when_the_panel_of_a_bullet_opens(reader: Reader) -> None:
    reader.open("#/playbooks/thousand")
    expect(reader.main.get_by_text(re.compile("^1,000 bullets ·"))).to_be_visible()  # all are read
    reader.page.evaluate("document.querySelector('[role=option]').isFirstDrawing = true")
    reader.press("j")
    expect(reader.page.get_by_role("region", name="Bullet")).to_be_visible()
    reader.wait_until_loaded()
    assert reader.page.evaluate("document.querySelector('[role=option]').isFirstDrawing")


def test_bullets_are_filtered_and_ordered(reader: Reader) -> None:
    reader.open("#/playbooks/thousand")
    reader.page.get_by_label("Filter bullets").fill("(777)")
    reader.sees("1 of 1,000 bullets")
    reader.page.get_by_label("Filter bullets").fill("")
    reader.page.get_by_label("Order").select_option("helpful")
    expect(reader.rows.first.locator(".votes")).to_have_attribute("aria-label", re.compile("^3 helpful"))
    reader.page.get_by_label("Section").select_option("troubleshooting")
    reader.sees("250 of 1,000 bullets")


def test_a_playbook_is_read_as_of_a_revision_and_a_time(reader: Reader) -> None:
    reader.open("#/playbooks/thousand")
    reader.page.get_by_text("As of…").click()
    reader.page.get_by_label("As of revision").fill("1")
    reader.button("Show").click()
    reader.sees("This is the playbook as of revision 1.")
    reader.sees("Check the invoice before the first call")
    reader.open("#/playbooks/thousand?time=2001-01-01T00:00:00Z")
    reader.sees("No bullets")


def test_the_history_shows_what_a_revision_changed(reader: Reader) -> None:
    reader.open("#/playbooks/thousand/history?revision=3")
    side = reader.page.get_by_role("region", name="Revision")
    expect(side).to_contain_text("3 updated")
    expect(side.locator(".card")).to_have_count(3)


def test_two_revisions_are_compared(reader: Reader) -> None:
    reader.open("#/playbooks/thousand/history")
    reader.page.get_by_label("From revision").fill("1")
    reader.button("Compare").click()
    side = reader.page.get_by_role("region", name="Revision")
    expect(side).to_contain_text("Revision 1 → 3")
    expect(side).to_contain_text("3 changed, 373 voted on")
    expect(side.locator(".card")).to_have_count(200)
    reader.button("Show 176 more changes").click()
    expect(side.locator(".card")).to_have_count(376)


def test_a_revision_is_restored(reader: Reader, stack: Stack) -> None:
    stack.seeds.playbook("restored", 4)
    reader.open("#/playbooks/restored/history?revision=1")
    reader.button("Restore…").click()
    reader.page.get_by_label("Why").fill("the old words were better")
    reader.page.get_by_role("dialog").get_by_role("button", name="Restore").click()
    side = reader.page.get_by_role("region", name="Revision")
    expect(side).to_contain_text("Revision 4")
    expect(side).to_contain_text("the old words were better")
    reader.open("#/playbooks/restored")
    reader.sees("Check the invoice before the first call")


def test_a_lesson_is_added_edited_voted_on_and_removed(reader: Reader, stack: Stack) -> None:
    stack.seeds.playbook("by-hand", 4)
    dialog, bullet = reader.page.get_by_role("dialog"), reader.page.get_by_role("region", name="Bullet")
    reader.open("#/playbooks/by-hand")
    reader.button("Add a lesson…").click()
    dialog.get_by_label("Lesson").fill("Run the zebra check.")
    dialog.get_by_role("button", name="Add").click()
    reader.sees("5 bullets · revision 4")
    expect(bullet.locator(".lead")).to_have_text("Run the zebra check.")
    reader.button("Edit…").click()
    dialog.get_by_label("Lesson").fill("Run the quagga check.")
    dialog.get_by_label("Why").fill("the zebra left")
    dialog.get_by_role("button", name="Save").click()
    reader.sees("5 bullets · revision 5")
    expect(bullet.locator(".lead")).to_have_text("Run the quagga check.")
    reader.button("Remove…").click()
    dialog.get_by_role("button", name="Remove").click()
    reader.sees("4 bullets · revision 6")
    reader.open("#/playbooks/by-hand/history?revision=5")
    expect(reader.page.get_by_role("region", name="Revision")).to_contain_text("the zebra left")


def test_a_dataset_is_deleted_once_its_name_is_typed(reader: Reader, stack: Stack) -> None:
    stack.seeds.playbook("short-lived", 4)
    dialog = reader.page.get_by_role("dialog")
    reader.open("#/playbooks/short-lived")
    reader.page.get_by_text("Dataset…", exact=True).click()
    reader.button("Delete dataset…").click()
    dialog.get_by_label("Type short-lived to confirm").fill("thousand")
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog).to_be_visible()
    dialog.get_by_label("Type short-lived to confirm").fill("short-lived")
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog).to_have_count(0)
    reader.sees("thousand")
    expect(reader.main.get_by_text("short-lived")).to_have_count(0)


def test_the_queue_shows_what_changed_since(reader: Reader) -> None:
    reader.open("#/review/queue")
    reader.sees("1,000 changes")
    reader.rows.filter(has_text="invoice first").click()
    side = reader.page.get_by_role("region", name="Change")
    expect(side.locator(".diff").first).to_contain_text("always")  # as it is now
    expect(side.locator(".diff ins").first).to_contain_text("first")  # as proposed
    expect(side).to_contain_text("1 changed")  # since it was proposed
    expect(side).to_contain_text("said so twice")


def test_changes_are_approved_and_rejected_with_a_reason(reader: Reader, stack: Stack) -> None:
    stack.seeds.queue("decided", 6)
    reader.open("#/review/decided")
    reader.sees("6 changes")
    reader.page.locator(".virtual").focus()
    reader.press("Home", "s", "j", "s", "a")  # two picked, approved
    reader.sees("4 changes")
    reader.press("x")
    reader.page.get_by_role("dialog").get_by_label("Why").fill("not true")
    reader.page.get_by_role("dialog").get_by_role("button", name="Reject").click()
    reader.sees("3 changes")
    reader.open("#/review/decided?show=decided")
    reader.rows.filter(has_text="rejected").first.click()
    expect(reader.page.get_by_role("region", name="Change")).to_contain_text("rejected by console: not true")


def test_an_address_without_a_point_in_time_says_so(reader: Reader) -> None:
    for address in ("#/playbooks/thousand?time=garbage", "#/playbooks/thousand?at=abc"):
        reader.open(address)
        reader.sees("The address names no revision and no time")
    reader.open("#/playbooks/thousand/history?revision=abc&from=x")
    expect(reader.page.get_by_role("region", name="Revision", exact=True)).to_contain_text("Revision 3")
    expect(reader.page).to_have_url(re.compile(r"history\?revision=3$"))
    reader.page.get_by_role("region", name="Revision", exact=True).get_by_role("button", name="Close").click()
    expect(reader.page).to_have_url(re.compile("history$"))


def test_a_change_that_somebody_else_decided_leaves_the_queue(reader: Reader, stack: Stack) -> None:
    stack.seeds.queue("decided-twice", 4)
    pending = httpx.get(f"{stack.url}/v1/playbooks/decided-twice/pending").json()["changes"]
    reader.open("#/review/decided-twice")
    reader.rows.filter(has_text="invoice first").click()
    reader.press("x")
    dialog = reader.page.get_by_role("dialog")
    dialog.get_by_label("Why").fill("not true")
    first = next(change["id"] for change in pending if "invoice first" in change["delta"]["content"])
    decision = {"request_id": str(uuid.uuid4()), "decision": "DECISION_APPROVE", "ids": [first]}
    stack.seeds.post("/v1/playbooks/decided-twice/pending", decision)
    dialog.get_by_role("button", name="Reject").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Somebody has decided on a change meanwhile.")
    dialog.get_by_role("button", name="Back").click()
    reader.sees("3 changes")
    expect(reader.rows).to_have_count(3)
    reader.expect_only_refusals("400")


def test_a_key_that_is_pressed_twice_or_held_approves_once(reader: Reader, stack: Stack) -> None:
    stack.seeds.queue("held", 6)
    decisions: list[str] = []
    routes: list[Route] = []
    reader.page.on("request", lambda request: decisions.append(request.url) if request.method == "POST" else None)
    reader.page.route("**/v1/playbooks/held/pending", lambda route: routes.append(route), times=1)
    reader.open("#/review/held")
    reader.sees("6 changes")
    reader.page.locator(".virtual").focus()
    reader.press("Home", "a", "a")
    reader.page.evaluate(TWO_FRAMES)
    assert len(decisions) == 1
    routes[0].continue_()
    reader.sees("5 changes")
    reader.page.keyboard.down("a")
    reader.sees("4 changes")
    reader.page.keyboard.down("a")
    reader.page.keyboard.up("a")
    reader.page.evaluate(TWO_FRAMES)
    assert len(decisions) == 2


def test_a_search_that_was_left_does_not_change_the_next_address(reader: Reader) -> None:
    reader.page.clock.install()
    reader.open("#/search/thousand")
    reader.page.evaluate(
        """() => {
          const query = document.querySelector("input[type=search]");
          query.value = "database";
          query.dispatchEvent(new Event("input"));
          location.hash = "#/playbooks";
        }"""
    )
    reader.sees("thousand")
    reader.page.clock.run_for(1_000)
    expect(reader.page).to_have_url(re.compile("#/playbooks$"))


def test_search_names_the_field_that_is_wrong(reader: Reader) -> None:
    reader.open("#/search/thousand?q=database")
    results = reader.page.get_by_label("Results")
    for value in ("1.5", "0", "1001"):
        results.fill(value)
        reader.sees("Correct the field to search")
        reader.sees("Results: ")
    results.fill("3")
    expect(reader.main.locator(".result")).to_have_count(3)


def test_search_shows_how_scores_came_about(reader: Reader) -> None:
    reader.open("#/search/thousand")
    reader.page.get_by_label("Query").fill("locked database")
    first = reader.main.locator(".result").first
    expect(first).to_contain_text("a locked database")
    for part in ("Combined", "Vector", "BM25", "cosine", "0.50 ·"):
        expect(first).to_contain_text(part)
    expect(first.locator(".terms .chip").first).to_contain_text("lock")
    reader.page.get_by_label("Weight of vectors").fill("1")
    expect(first).to_contain_text("1.00 · 1.00 + 0.00 ·")


def test_an_empty_search_names_the_remedy(reader: Reader) -> None:
    reader.open("#/search/thousand?q=database&section=nowhere")
    reader.sees("Nothing found")


def test_a_question_becomes_a_plan_and_the_plan_runs(reader: Reader) -> None:
    reader.open("#/executions")
    reader.page.get_by_label("Task").fill("What is known of invoices?")
    reader.button("Plan").click()
    expect(reader.main.locator(".step")).to_have_count(2)
    reader.button("Run it").click()
    expect(reader.page).to_have_url(re.compile(r"#/executions/[0-9a-f]{12}$"))
    expect(reader.main.locator(".event-step_started").first).to_be_visible()


def test_a_question_is_planned_once(reader: Reader) -> None:
    plans: list[Route] = []
    reader.page.route("**/v1/plans", lambda route: plans.append(route))
    reader.open("#/executions")
    reader.page.get_by_label("Task").fill("Compare both")
    with reader.page.expect_request("**/v1/plans"):
        reader.press("Enter")
    reader.press("Enter")
    reader.page.evaluate(TWO_FRAMES)
    (plan,) = plans
    plan.continue_()
    expect(reader.button("Run it")).to_be_visible()


def test_a_plan_is_drawn_with_its_states_and_the_question_answered(reader: Reader, stack: Stack) -> None:
    execution = stack.seeds.execution("Compare and confirm", steps=comparison("thousand"))
    reader.open(f"#/executions/{execution}")
    expect(reader.main.locator(".edge")).to_have_count(6)
    expect(reader.main.locator(".step-success")).to_have_count(2)
    question = reader.page.get_by_role("region", name="Open question")
    expect(question).to_contain_text("About step 1")
    reader.press("y")
    expect(reader.main.locator(".event-intervention_answered")).to_contain_text("proceed")
    reader.main.locator("[data-step='2']").click()
    expect(reader.main.locator(".card", has=reader.page.get_by_role("heading", name="Step 2"))).to_contain_text(
        "the access token"
    )


def test_an_execution_is_modified_informed_and_cancelled(reader: Reader, stack: Stack) -> None:
    execution = stack.seeds.execution("Change me", confirm=True)
    reader.open(f"#/executions/{execution}")
    expect(reader.page.get_by_role("region", name="Open question")).to_contain_text("About the plan")
    reader.button("Add information…").click()
    reader.page.get_by_label("Information for the execution").fill("there are two invoices")
    reader.page.get_by_role("dialog").get_by_role("button", name="Add").click()
    reader.sees("Information added: there are two invoices")
    reader.button("Modify…").click()
    changed = json.loads(reader.page.get_by_role("textbox", name="The plan").input_value())
    changed["steps"] = [{**changed["steps"][0], "description": "Look at both invoices"}]
    reader.page.get_by_role("textbox", name="The plan").fill(json.dumps(changed))
    reader.page.get_by_label("In words").fill("Look at both invoices")
    reader.page.get_by_role("dialog").get_by_role("button", name="Modify").click()
    expect(reader.page.get_by_role("dialog").get_by_role("alert")).to_contain_text("only one of them is used")
    reader.page.get_by_label("In words").fill("")
    reader.page.get_by_role("dialog").get_by_role("button", name="Modify").click()
    expect(reader.main.locator(".event-intervention_answered").first).to_contain_text("modify")
    expect(reader.main.locator(".step").first).to_contain_text("Look at both invoices")


def test_a_paused_execution_is_cancelled(reader: Reader, stack: Stack) -> None:
    execution = stack.seeds.execution("Cancel me", confirm=True)
    reader.open(f"#/executions/{execution}")
    expect(reader.button("Cancel…")).to_be_visible()
    reader.press("c")
    reader.page.get_by_role("dialog").get_by_role("button", name="Cancel it").click()
    expect(reader.main.locator(".event-finished")).to_contain_text("cancelled")
    expect(reader.page.get_by_role("region", name="Open question")).to_have_count(0)
    expect(reader.button("Cancel…")).to_be_hidden()


def test_the_leaderboard_ranks_teams_and_shows_every_round(reader: Reader) -> None:
    reader.open("#/leaderboard/rounds-1")
    reader.sees("6 teams, 30 rounds")
    expect(reader.main.locator("tbody tr").first).to_contain_text("97.00")
    reader.main.locator(".round summary").first.click()
    reader.sees("A submission.")
    reader.page.get_by_label("Order").select_option("RANKING_ORDER_SHRUNKEN")
    expect(reader.page.get_by_role("columnheader", name="Estimated mean")).to_be_visible()


def test_teams_compete_and_are_ranked(reader: Reader) -> None:
    reader.open("#/leaderboard")
    reader.page.get_by_label("Prompt").fill("How does one keep a changelog?")
    reader.button("Start").click()
    reader.sees("2 teams, ")
    reader.open("#/leaderboard")
    newest = reader.page.get_by_role("region", name="Executions of rounds").locator("tbody tr").first
    expect(newest).to_contain_text(re.compile(r"Short|Steps"))
    newest.get_by_role("link").click()
    reader.sees("2 teams, ")


def test_health_shows_services_and_indexes(reader: Reader) -> None:
    reader.open("#/health")
    services = reader.main.locator(".service")
    expect(services).to_have_count(6)
    expect(services.filter(has_text="serving")).to_have_count(6)
    name = reader.page.get_by_role("cell", name="thousand", exact=True)
    expect(reader.main.locator("tr", has=name)).to_contain_text("1,000")


def test_empty_pages_show_a_notice(reader: Reader) -> None:
    for address, text in (
        ("#/playbooks/nothing-here", "No such dataset"),
        ("#/playbooks/nothing-here/history", "No such dataset"),
        ("#/review/nothing-here", "No such dataset"),
        ("#/review/thousand", "No pending changes"),
        ("#/review/thousand?show=decided", "No decisions yet"),
        ("#/search/nothing-here", "Search the lessons"),
        ("#/executions?q=nobody-asked-this", "No executions"),
        ("#/leaderboard/nothing-here", "No execution of rounds has this id"),
        ("#/nowhere", "There is no such page"),
    ):
        reader.open(address)
        reader.sees(text)
    reader.expect_only_refusals("404")


def test_an_error_of_the_gateway_is_shown_with_its_reason(reader: Reader) -> None:
    reader.open("#/playbooks/thousand?at=99")
    reader.sees("The request failed")
    expect(reader.button("Try again")).to_be_visible()
    reader.expect_only_refusals("400")


def test_pages_open_without_another_script(reader: Reader) -> None:
    """An open tab stays usable while the gateway is unreachable, or serves another version of the console."""
    reader.open("#/playbooks")
    names = "performance.getEntriesByType('resource').map(({ name }) => name).filter((name) => name.endsWith('.js'))"
    scripts = [name.rpartition("/js/")[2] for name in reader.page.evaluate(names)]
    assert sorted(scripts) == ["main.js", "texts.js", "texts/en.js"]
    reader.page.route("**/js/**", lambda route: route.abort())
    reader.open("#/executions")
    reader.sees("Executions")


def test_an_aborted_request_is_no_error(reader: Reader) -> None:
    reader.open("#/overview")
    rejections = ("AbortSignal.abort().reason", "new TypeError('of our own')")
    with reader.page.expect_event("pageerror"):
        for reason in rejections:
            reader.page.evaluate(f"() => void setTimeout(() => Promise.reject({reason}))")
    assert reader.complaints == ["of our own"]
    reader.complaints.clear()


def test_an_unavailable_gateway_is_reported_and_retried(reader: Reader) -> None:
    reader.page.context.route("**/v1/playbooks**", lambda route: route.abort())
    reader.open("#/playbooks")
    reader.sees("The gateway cannot be reached.")
    reader.page.context.unroute_all()
    reader.button("Try again").click()
    reader.sees("thousand")
    reader.expect_only_refusals("ERR_FAILED")


def test_the_api_page_makes_one_change_after_another(reader: Reader) -> None:
    reader.open("#/api")
    reader.page.get_by_text("/v1/playbooks/{dataset}/deltas", exact=True).click()
    body = reader.page.locator("textarea[data-of$=_ApplyDeltas]")
    operation = reader.page.locator("details", has=body)
    operation.get_by_label("dataset (path)").fill("two-changes")
    for revision in ("1", "2"):
        delta = {"type": "DELTA_TYPE_ADD", "section": "apis_to_use", "content": f"Lesson {revision} of this dataset."}
        body.fill(json.dumps({"deltas": [delta], "author": "api", "reason": "tried"}))
        operation.get_by_role("button", name="Send request").click()
        expect(operation.get_by_role("status")).to_contain_text(f'"revision": "{revision}"')


def test_the_api_page_calls_an_operation(reader: Reader, stack: Stack) -> None:
    reader.page.goto(f"{stack.url}/docs")
    expect(reader.page).to_have_url(f"{stack.url}/console/#/api")
    reader.page.get_by_text("/v1/search", exact=True).click()
    body = reader.page.locator("textarea[data-of=SearchService_Search]")
    assert json.loads(body.input_value()) == {"dataset": "", "query": {}}
    body.fill(json.dumps({"dataset": "thousand", "query": {"query_text": "invoice", "top_k": 1}}))
    operation = reader.page.locator("details", has=body)
    operation.get_by_role("button", name="Send request").click()
    expect(operation.get_by_role("status")).to_contain_text("200 OK")
    expect(operation.get_by_role("status")).to_contain_text('"bullet"')
