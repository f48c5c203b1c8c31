"""The page Learn: detected formats, the stages of one trajectory, and jobs of several."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.console.example_trajectories import BY_NAME, lines
from tests.console.reader import Reader
from tests.console.seeds import lesson, submit_job
from tests.console.test_access import PHONE, dialog_faults, faults
from tests.console.test_hostile import ALL, MADE, TEXTS
from tests.console.windows import Stack, reading
from tests.support import systems
from tests.support.bulk_jobs import build_trajectories

pytestmark = pytest.mark.long

EXAMPLES = Path(__file__).parents[2] / "examples/trajectories"
PEERS = set(systems.PEERS) - {"REFLECTOR_ADDR"}


@contextmanager
def without_a_reflector(stack: Stack, data: Path, **environment: str) -> Iterator[str]:
    """Yield the address of a gateway whose jobs cannot be learned, before the other services of the stack."""
    http = f"127.0.0.1:{systems.free_port()}"
    gone = {"REFLECTOR_ADDR": f"127.0.0.1:{systems.free_port()}", "HANSEI_HTTP_ADDRESS": http}
    with systems.one_service(data, "gateway", **dict.fromkeys(PEERS, stack.address), **gone, **environment):
        yield f"http://{http}"


@pytest.fixture(scope="module")
def failing_address(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway whose trajectories are dead letters at once."""
    one_attempt = {"HANSEI_BULK_ATTEMPTS": "1", "HANSEI_BULK_OUTAGE_SECONDS": "0"}
    with without_a_reflector(stack, tmp_path_factory.mktemp("giving-up"), **one_attempt) as url:
        yield url


@pytest.fixture(scope="module")
def patient(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield a gateway whose jobs wait for long."""
    pause = {
        "HANSEI_BULK_ATTEMPTS": "9",
        "HANSEI_BULK_OUTAGE_SECONDS": "0",
        "HANSEI_BULK_RETRY_BASE_SECONDS": "600",
    }
    with without_a_reflector(stack, tmp_path_factory.mktemp("patient"), **pause) as url:
        yield url


def file(name: str, text: str) -> Any:
    return {"name": name, "mimeType": "application/octet-stream", "buffer": text.encode()}


def test_learning_one_trajectory_shows_its_stages(reader: Reader) -> None:
    reader.open("#/learn/learned")
    expect(reader.page.get_by_role("region", name="Feed")).to_contain_text("Revisions appear here")
    reader.button("Fill in an example").click()
    reader.main.get_by_role("button", name="Learn").click()
    stages = reader.main.locator(".stages > .done")
    expect(stages).to_have_count(3)
    expect(stages.nth(1)).to_contain_text("1 insight")
    source = stages.nth(1).locator(".card").get_by_role("link", name=re.compile("^step .* of "))
    expect(source.first).to_have_attribute("href", re.compile(r"^#/trajectories/learned/.+\?step=\d+$"))
    expect(stages.nth(2)).to_contain_text("fatal: unable to auto-detect email address")
    expect(stages.nth(2)).to_contain_text("1 change waiting for review")
    expect(stages.nth(2)).to_contain_text("No lesson was added or changed.")
    expect(stages.nth(2)).not_to_contain_text("ADD: 1")
    arrived = reader.page.get_by_role("region", name="Feed").locator(".arrived")
    expect(arrived).to_contain_text("revision 1")
    expect(arrived).to_contain_text("curate")


def test_a_lesson_that_was_added_is_in_its_revision(reader: Reader) -> None:
    reader.open("#/learn/rebased")
    reader.page.get_by_label("Trajectory files").set_input_files(EXAMPLES / "git-push-rebased.json")
    reader.main.get_by_role("button", name="Learn").click()
    expect(reader.main.locator(".stages > .done").nth(2)).to_contain_text("The lessons are in revision 1.")


def test_what_others_write_arrives_too(reader: Reader, stack: Stack) -> None:
    stack.seeds.playbook("watched", 1)
    with reader.page.expect_response(lambda response: "/watched/events" in response.url):
        reader.open("#/learn/watched")
    feed = reader.page.get_by_role("region", name="Feed")
    stack.seeds.deltas("watched", [lesson(41)], "by somebody else")
    expect(feed.locator(".arrived")).to_contain_text("(41)")


def test_the_feed_goes_on_after_its_connection_broke(reader: Reader, stack: Stack) -> None:
    """The first streams break without a message, and the next one is quiet."""
    stack.seeds.playbook("interrupted", 1)
    reader.page.add_init_script(
        """(() => {
          const { fetch } = window;
          let listeners = 0;
          window.listenersByConnection = [];
          window.fetch = (address, init) => {
            if (!address.includes("/interrupted/events")) return fetch(address, init);
            listenersByConnection.push(listeners);
            if (listenersByConnection.length > 3) return fetch(address, init);
            const body = new ReadableStream({ start: (stream) => stream.error(new TypeError()) });
            return Promise.resolve(new Response(body));
          };
          const { addEventListener, removeEventListener } = EventTarget.prototype;
          AbortSignal.prototype.addEventListener = function (name, call, options) {
            if (!options?.signal) listeners += 1;
            addEventListener.call(this, name, call, options);
          };
          AbortSignal.prototype.removeEventListener = function (name, call) {
            listeners -= 1;
            removeEventListener.call(this, name, call);
          };
        })()"""
    )
    reader.open("#/learn/interrupted")
    expect(reader.page.get_by_role("region", name="Feed").locator(".detail-head")).to_contain_text("up to date")
    expect(reader.page.get_by_role("region", name="Feed").get_by_role("alert")).to_have_count(0)
    # No connection leaves a listener behind; one more is that of the badge of the inbox.
    listeners = reader.page.evaluate("listenersByConnection")
    assert len(listeners) == 4
    assert listeners[-1] <= listeners[0] + 1


def test_a_feed_that_could_not_be_read_is_read_again(reader: Reader) -> None:
    reader.page.route("**/v1/playbooks/read-again/summary?*", lambda route: route.abort(), times=1)
    reader.open("#/learn/read-again")
    feed = reader.page.get_by_role("region", name="Feed")
    feed.get_by_role("alert").get_by_role("button", name="Try again").click()
    expect(feed.locator(".detail-head")).to_contain_text("up to date")
    expect(feed.get_by_role("alert")).to_have_count(0)
    expect(feed).to_contain_text("Revisions appear here")
    reader.expect_only_refusals("ERR_FAILED")


def test_a_text_that_is_dragged_replaces_no_other(reader: Reader) -> None:
    """The browser moves a text within a field; a thing without a text is no trajectory."""
    reader.open("#/learn/dragged")
    text = reader.page.get_by_role("textbox", name="Trajectories")
    text.fill("A long text.")
    drop = """(target, text) => {
      const dataTransfer = new DataTransfer();
      if (text) dataTransfer.setData("text/plain", text);
      target.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
    }"""
    text.evaluate(drop, "long")
    expect(text).to_have_value("A long text.")
    reader.page.locator("form.drop").evaluate(drop, "")
    expect(text).to_have_value("A long text.")
    reader.page.locator("form.drop").evaluate(drop, "Another text.")
    expect(text).to_have_value("Another text.")
    reader.expect_only_refusals("400")


@pytest.mark.parametrize("name", list(BY_NAME))
def test_what_is_pasted_is_recognised(reader: Reader, name: str) -> None:
    reader.open("#/learn/recognised")
    reader.page.get_by_label("Trajectories").fill(BY_NAME[name])
    found = reader.main.locator(".found")
    expect(found.locator(".source .chip")).to_have_text(name)
    expect(found.locator(".source")).to_contain_text("1 trajectory")
    expect(found.locator(".records > li")).to_contain_text("step")


def test_a_file_is_learned_from_as_it_is_with_the_answer_it_brings(reader: Reader) -> None:
    reader.open("#/learn/filed")
    reader.page.get_by_label("Trajectory files").set_input_files(file("log.json", BY_NAME["Who&When"]))
    expect(reader.main.locator(".source")).to_contain_text("log.json")
    expect(reader.page.get_by_label("Correct answer")).to_have_attribute("placeholder", "8")
    with reader.page.expect_request("**/v1/learn/events") as sent:
        reader.page.get_by_label("Correct answer").press("Control+Enter")
    body: Any = sent.value.post_data_json
    assert (body["ground_truth"], body["trajectory"]["dataset"]) == ("8", "filed")
    expect(reader.main.locator(".stages > .done")).to_have_count(3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ('{"a": 1}', "in none of the formats"),
        ("[]", ""),
        (json.dumps({"query": "q", "status": "lost", "steps": []}), "must be 'success' or 'failure'"),
    ],
)
def test_what_cannot_be_read_says_why_and_is_not_sent(reader: Reader, text: str, message: str) -> None:
    reader.open("#/learn/thousand")
    reader.page.get_by_label("Trajectories").fill(text)
    source = reader.main.locator(".source")
    expect(source).to_contain_text("not recognised")
    expect(source).to_contain_text(message)
    with_reasons = "formats" in message
    expect(source.get_by_text("Why no format matched")).to_have_count(1 if with_reasons else 0)
    reader.main.get_by_role("button", name="Learn").click()
    expect(reader.page.locator("#toasts")).to_contain_text("cannot be read")
    reader.expect_only_refusals("400")


def test_the_error_of_a_chosen_format_names_the_missing_part(reader: Reader) -> None:
    reader.open("#/learn/thousand")
    reader.page.get_by_label("Trajectories").fill(BY_NAME["OpenAI messages"])
    reader.page.get_by_label("Format").select_option("TRAJECTORY_FORMAT_TAU_BENCH")
    expect(reader.main.locator(".source")).to_contain_text("trajectory.reward")
    reader.page.get_by_label("Format").select_option("")
    expect(reader.main.locator(".source .chip")).to_have_text("OpenAI messages")
    reader.expect_only_refusals("400")


def test_an_empty_input_cannot_be_submitted(reader: Reader) -> None:
    reader.open("#/learn/nobody")
    expect(reader.page.get_by_role("region", name="Jobs")).to_contain_text("None yet")
    reader.main.get_by_role("button", name="Learn").click()
    expect(reader.page.locator("#toasts")).to_contain_text("There is no trajectory yet")


def test_several_trajectories_become_a_job_with_its_progress(reader: Reader) -> None:
    reader.open("#/learn/many")
    reader.page.get_by_label("Trajectory files").set_input_files(
        [file("many.jsonl", lines(12)), file("one.json", BY_NAME["ATIF"]), file("none.json", "{}")]
    )
    expect(reader.main.locator(".source")).to_have_count(3)
    reader.button("Learn").click()
    expect(reader.page.locator("#toasts")).to_contain_text("cannot be read")  # all or nothing
    reader.main.locator(".source", has_text="none.json").get_by_role("button", name="Remove").click()
    reader.button("Learn from 13 trajectories").click()
    job = reader.page.get_by_role("region", name="Job", exact=True)
    expect(job).to_contain_text("completed")
    expect(job).to_contain_text("13 of 13 trajectories")
    expect(job.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "13")
    expect(job.get_by_role("button", name="Cancel…")).to_be_hidden()
    listed = reader.page.get_by_role("region", name="Jobs").locator("li")
    expect(listed).to_contain_text("completed")
    reader.page.reload()  # the address names the job
    expect(job).to_contain_text("13 of 13 trajectories")
    reader.expect_only_refusals("400")


def test_a_job_is_cancelled_by_a_key(browser: Browser, patient: str) -> None:
    with reading(browser, patient) as reader:
        job_id = submit_job(patient, "cancelled", build_trajectories("cancelled", 30))
        reader.open("#/learn/cancelled")
        reader.page.get_by_role("region", name="Jobs").get_by_role("link", name="30 trajectories").click()
        job = reader.page.get_by_role("region", name="Job", exact=True)
        expect(job).to_contain_text("running")
        assert job_id in reader.page.url
        with reading(browser, patient, locale="ja-JP") as japanese:
            assert dialog_faults(japanese, f"#/learn/cancelled?job={job_id}", "common.cancel") == []
        reader.press("c")
        dialog = reader.page.get_by_role("dialog")
        expect(dialog).to_contain_text("Learned ones stay")
        dialog.get_by_role("button", name="Cancel it").click()
        # Those that were started may be committed, so they wait for the reflector; all others are dropped.
        expect(job).to_contain_text(re.compile(r"Waiting[1-9]\d?Last error.*Cancelled[1-9]"))


def test_a_key_cancels_no_job_that_is_not_shown(browser: Browser, patient: str) -> None:
    with reading(browser, patient) as reader:
        job_id = submit_job(patient, "replaced", build_trajectories("replaced", 1))
        reader.open(f"#/learn/replaced?job={job_id}")
        job = reader.page.get_by_role("region", name="Job", exact=True)
        expect(job).to_contain_text("running")
        trajectory = {"query": "Add 1 and 1", "status": "", "steps": [], "ground_truth": ""}
        parsed = {"trajectories": [{"trajectory": trajectory}], "format": "TRAJECTORY_FORMAT_HANSEI"}
        reader.page.route("**/v1/trajectories/parse?*", lambda route: route.fulfill(json=parsed))
        reader.page.route("**/v1/learn/events", lambda route: route.abort())
        reader.button("Fill in an example").click()
        reader.main.get_by_role("button", name="Learn").click()
        expect(job).to_have_count(0)
        reader.page.get_by_role("heading", name="Jobs").click()
        reader.press("c")
        expect(reader.page.get_by_role("dialog")).to_have_count(0)
        reader.expect_only_refusals("ERR_FAILED")


def test_dead_letters_have_reasons_and_can_be_retried(browser: Browser, failing_address: str) -> None:
    with reading(browser, failing_address) as reader:
        job_id = submit_job(failing_address, "dead", build_trajectories("dead", 60))
        reader.open(f"#/learn/dead?job={job_id}")
        job = reader.page.get_by_role("region", name="Job", exact=True)
        expect(job).to_contain_text("incomplete")
        expect(job.locator("summary")).to_have_text("60 dead letters")
        letters = job.locator(".letters tbody tr")
        expect(letters).to_have_count(50)
        expect(letters.first).to_contain_text("PEER_UNAVAILABLE")
        expect(letters.first).to_contain_text("dead-0")
        job.get_by_role("button", name="Show more").click()
        expect(letters).to_have_count(60)
        with reader.page.expect_response("**/dead-letters/retry"):
            job.get_by_role("button", name="Retry them").click()
        expect(job).to_contain_text("60 dead letters")
        assert faults(reader, None) == []


def test_a_deleted_job_is_not_found(reader: Reader) -> None:
    reader.open(f"#/learn/thousand?job={uuid.uuid4()}")
    reader.sees("No such job")
    reader.expect_only_refusals("404")


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_learn_page_is_accessible(browser: Browser, stack: Stack, theme: str) -> None:
    with reading(browser, stack.url, color_scheme=theme, **PHONE) as reader:
        reader.open("#/learn/everybody")
        for name, text in (("bad.json", '{"a": 1}'), ("many.jsonl", lines(7))):
            reader.page.get_by_label("Trajectory files").set_input_files(file(name, text))
            expect(reader.main.locator(".source", has_text=name)).to_be_visible()
            assert faults(reader, None) == []
        reader.main.locator(".source", has_text="bad.json").get_by_role("button", name="Remove").tap()
        reader.button("Learn from 7 trajectories").tap()
        expect(reader.page.get_by_role("region", name="Job", exact=True)).to_contain_text("7 of 7 trajectories")
        assert faults(reader, None) == []
        wide = reader.page.evaluate("Math.max(document.documentElement.scrollWidth, main.scrollWidth) - innerWidth")
        assert wide <= 0
        reader.expect_only_refusals("400")


def test_hostile_files_stay_text(browser: Browser, failing_address: str, reader: Reader) -> None:
    name = TEXTS[0].replace("/", "") + ".json"
    messages = [{"role": "user", "content": ALL}, {"role": "assistant", "content": ALL}]
    reader.open("#/learn/hostile-files")
    reader.page.get_by_label("Trajectory files").set_input_files(file(name, json.dumps(messages)))
    expect(reader.main.locator(".source .name")).to_have_text(name)
    expect(reader.main.locator(".records .line")).to_contain_text(TEXTS[0])
    reader.page.get_by_label("Trajectory files").set_input_files(file("keys.json", json.dumps({ALL: 1})))
    expect(reader.main.locator(".source .bad")).to_contain_text("<img")
    with reading(browser, failing_address) as other:
        (trajectory,) = build_trajectories("hostile-letters", 1)
        trajectory.id = ALL[:200]
        other.open(f"#/learn/hostile-letters?job={submit_job(failing_address, 'hostile-letters', [trajectory])}")
        expect(other.main.locator(".letters")).to_contain_text(TEXTS[0])
        for window in (reader, other):
            assert window.page.evaluate("window.hacked") is None
            assert window.page.locator(MADE).count() == 0
    reader.expect_only_refusals("400")
