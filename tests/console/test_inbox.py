"""The inbox lists everything that waits for a person, and the badge counts it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.console.reader import Reader
from tests.console.seeds import Seeds, submit_job
from tests.console.windows import SECONDS, reading
from tests.support import systems
from tests.support.bulk_jobs import build_trajectories

ASKING = [{"step_id": 1, "action": "ACTION_ASK_USER", "description": "Ask", "query": "Which colour?"}]


@dataclass(frozen=True)
class Work:
    """A hansei whose jobs fail, and the seeds that give it work for people."""

    url: str
    seeds: Seeds


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Work]:
    """A hansei of its own, because an inbox shows everything; its gateway reaches no reflector."""
    http = f"127.0.0.1:{systems.free_port()}"
    gone = {
        "REFLECTOR_ADDR": f"127.0.0.1:{systems.free_port()}",
        "HANSEI_BULK_ATTEMPTS": "1",
        "HANSEI_BULK_OUTAGE_SECONDS": "0",
    }
    with systems.one_process(tmp_path_factory.mktemp("services")) as system:
        peers = dict.fromkeys(systems.PEERS, system.address)
        with (
            systems.one_service(
                tmp_path_factory.mktemp("gateway"), "gateway", **peers | gone, HANSEI_HTTP_ADDRESS=http
            ),
            httpx.Client(base_url=f"http://{http}", timeout=SECONDS) as client,
        ):
            yield Work(f"http://{http}", Seeds(client, system.address))


@pytest.fixture
def visitor(browser: Browser, work: Work) -> Iterator[Reader]:
    with reading(browser, work.url) as reader:
        yield reader


def badge(reader: Reader) -> Locator:
    return reader.page.locator("#nav .badge")


def test_an_empty_inbox_says_so(visitor: Reader) -> None:
    visitor.open("#/inbox")
    visitor.sees("Nothing needs you")
    expect(badge(visitor)).to_be_hidden()


def test_an_inbox_that_cannot_be_read_counts_nothing(visitor: Reader) -> None:
    visitor.open("#/playbooks")
    visitor.page.context.set_offline(True)
    visitor.open("#/inbox")
    visitor.sees("The gateway cannot be reached.", times=1)
    expect(visitor.main.get_by_role("heading", level=1)).to_have_text("Inbox")
    expect(visitor.main.get_by_text("open item")).to_have_count(0)
    visitor.page.context.set_offline(False)
    visitor.expect_only_refusals("ERR_INTERNET_DISCONNECTED")


def test_the_badge_is_read_again_after_a_failure(visitor: Reader) -> None:
    page = visitor.page
    page.clock.install()
    page.route("**/v1/**", lambda route: route.abort())
    with page.expect_event("requestfailed", lambda request: "/v1/jobs" in request.url):
        visitor.open("#/api")
    page.unroute("**/v1/**")
    # A minute of the browser; the request follows in 30 seconds, if the failure is noticed only after it.
    with page.expect_response(lambda response: "/v1/jobs" in response.url, timeout=40_000):
        page.clock.fast_forward(60_000)
    visitor.expect_only_refusals("ERR_FAILED")


def test_the_inbox_leads_to_what_waits(visitor: Reader, work: Work) -> None:
    filled = work.seeds
    execution = filled.execution("Choose a colour", steps=ASKING)
    filled.queue("reviewed", 4)
    job_id = submit_job(work.url, "learned", build_trajectories("learned", 1))
    httpx.get(f"{work.url}/v1/jobs/{job_id}/events", timeout=SECONDS)  # ends with the job
    visitor.open("#/playbooks")
    expect(badge(visitor)).to_have_text("3")
    visitor.press("g", "i")
    questions = visitor.page.get_by_role("region", name="Questions")
    expect(questions.get_by_role("listitem")).to_have_count(1)
    expect(visitor.page.get_by_role("region", name="Changes for review")).to_contain_text("4 changes")
    letters = visitor.page.get_by_role("region", name="Dead letters")
    expect(letters).to_contain_text("1 dead letter")
    letters.get_by_role("link").click()
    expect(visitor.page).to_have_url(re.compile(r"#/learn/learned\?job="))
    visitor.open("#/inbox")
    visitor.page.get_by_role("link", name="reviewed").click()
    expect(visitor.page).to_have_url(re.compile("#/review/reviewed$"))
    visitor.open("#/inbox")
    questions.get_by_role("link", name="Choose a colour").click()
    expect(visitor.page).to_have_url(re.compile(f"#/executions/{execution}$"))


def test_an_answered_question_leaves_the_inbox(visitor: Reader, work: Work) -> None:
    execution = work.seeds.execution("Choose a size", steps=ASKING)
    visitor.open("#/inbox")
    visitor.sees("Choose a size")
    work.seeds.post(f"/v1/executions/{execution}/cancel", {"request_id": str(uuid.uuid4())})
    visitor.press("u")
    expect(visitor.main.get_by_text("Choose a size")).to_have_count(0)
