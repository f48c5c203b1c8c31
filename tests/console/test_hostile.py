"""Text from outside stays text, wherever the console shows it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from urllib.parse import quote

import grpc
import pytest
from playwright.sync_api import Error, expect

from hansei.playbook.v1 import playbook_service_pb2, playbook_service_pb2_grpc
from tests.console.reader import Reader
from tests.console.windows import Stack

HACK = "window.hacked=1"
TEXTS = (
    f"<img src=x onerror={HACK}>",
    f"<script>{HACK}</script>",
    f"\"'><svg onload={HACK}>",
    f"</textarea></title><iframe srcdoc='<script>parent.{HACK}</script>'>",
    f"javascript:{HACK}",
    f"{{{{constructor.constructor('{HACK}')()}}}} ${{{HACK}}}",
    f'graph TD; A["<img src=x onerror={HACK}>"] --> B; click A "javascript:{HACK}" %%{{init: {{}}}}%%',
    f'<a href="javascript:{HACK}">x</a>\u202e<math><mtext></form><form><mglyph><style></math><img src onerror={HACK}>',
)
ALL = " ".join(TEXTS)
NAMES = [text[:100] for text in TEXTS]
ROUNDS = "".join(NAMES)[:190]
MADE = "#main img, #main script, #main iframe, #main math, #main a[href^=javascript], svg[onload]"


@pytest.fixture(scope="module")
def hostile(stack: Stack) -> str:
    """A dataset, an execution and rounds full of such texts; the execution's id."""
    bullets = [
        {
            "id": NAMES[number],
            "section": text,
            "content": text,
            "searchable_text": text,
            "source_trajectory": text[:200],
        }
        for number, text in enumerate(TEXTS)
    ]
    _import("hostile", {"dataset": "hostile", "bullets": bullets}, stack.address)
    edits = [{"type": "DELTA_TYPE_ADD", "section": text, "content": text, "reasoning": text} for text in TEXTS]
    stack.seeds.deltas("hostile", edits, ALL[:190])
    stack.seeds.rounds(ROUNDS, teams=2, rounds=2, text=ALL)
    steps = [
        {"step_id": i, "action": "ACTION_RAG_SEARCH", "collection": "hostile", "description": text, "query": text}
        for i, text in enumerate(TEXTS, 1)
    ]
    return stack.seeds.execution(ALL, steps=steps)


@pytest.fixture
def watched_reader(reader: Reader) -> Iterator[Reader]:
    """Yield a reader for whom nothing hostile came to life."""
    yield reader
    assert reader.page.evaluate("window.hacked") is None
    assert reader.page.locator(MADE).count() == 0


def test_hostile_bullets_stay_text(watched_reader: Reader, hostile: str) -> None:
    watched_reader.open("#/playbooks/hostile")
    expect(watched_reader.rows).to_have_count(len(TEXTS))
    for number, text in enumerate(TEXTS):
        watched_reader.rows.nth(number).click()
        detail = watched_reader.page.get_by_role("region", name="Bullet")
        expect(detail.locator(".lead")).to_have_text(text)
        expect(detail.locator(".story")).to_be_visible()


def test_a_hostile_history_stays_text(watched_reader: Reader, hostile: str) -> None:
    watched_reader.open("#/playbooks/hostile/history?revision=2")
    side = watched_reader.page.get_by_role("region", name="Revision")
    expect(side.locator(".card")).to_have_count(len(TEXTS))
    expect(side).to_contain_text(TEXTS[0])


def test_hostile_search_results_stay_text(watched_reader: Reader, hostile: str) -> None:
    watched_reader.open(f"#/search/hostile?q={quote(ALL)}")
    expect(watched_reader.main.locator(".result").first).to_contain_text("hacked")
    expect(watched_reader.main.locator(".terms .chip").first).to_be_visible()


def test_hostile_learning_results_stay_text(watched_reader: Reader, hostile: str) -> None:
    steps = [
        {"role": "STEP_ROLE_ASSISTANT", "name": TEXTS[0], "tool_calls": [{"id": "1", "name": "x", "arguments": ALL}]},
        {"role": "STEP_ROLE_TOOL", "name": "x", "tool_call_id": "1", "content": f"Error: {ALL}"},
    ]
    run = {"id": TEXTS[1], "query": ALL, "status": "TRAJECTORY_STATUS_FAILURE", "generated_answer": ALL, "steps": steps}
    watched_reader.open("#/learn/hostile")
    watched_reader.page.get_by_label("Trajectories").fill(json.dumps(run))
    watched_reader.main.get_by_role("button", name="Learn").click()
    expect(watched_reader.main.locator(".stages > .done")).to_have_count(3)


def test_hostile_trajectories_stay_text(watched_reader: Reader, hostile: str, stack: Stack) -> None:
    call = {"id": TEXTS[2], "name": NAMES[2], "arguments": ALL}
    steps = [
        {"role": "STEP_ROLE_ASSISTANT", "name": TEXTS[0], "content": ALL, "tool_calls": [call]},
        {"role": "STEP_ROLE_TOOL", "name": TEXTS[3], "tool_call_id": TEXTS[2], "content": f"Error: {ALL}"},
    ]
    run = {"id": TEXTS[0], "query": ALL, "generated_answer": ALL, "error_message": ALL, "task_id": TEXTS[1]}
    status = "TRAJECTORY_STATUS_FAILURE"
    stack.seeds.archive("hostile", {**run, "status": status, "steps": steps}, [NAMES[4], TEXTS[5]])
    watched_reader.open("#/trajectories/hostile")
    expect(watched_reader.rows.first).to_contain_text(TEXTS[0])
    watched_reader.rows.first.click()
    trace = watched_reader.main.locator(".trace-step")
    expect(trace).to_have_count(2)
    expect(trace.first).to_contain_text(ALL)
    expect(trace.nth(1)).to_contain_text(TEXTS[3])
    expect(watched_reader.main.locator(".facts")).to_contain_text(TEXTS[4])


def test_hostile_executions_stay_text(watched_reader: Reader, hostile: str) -> None:
    watched_reader.open("#/executions")
    watched_reader.sees(TEXTS[0])
    watched_reader.open(f"#/executions/{hostile}")
    expect(watched_reader.main.locator(".step")).to_have_count(len(TEXTS))
    expect(watched_reader.main.locator(".step-text").nth(1)).to_have_text(TEXTS[1])
    watched_reader.main.locator(".step").first.click()


def test_a_hostile_leaderboard_stays_text(watched_reader: Reader, hostile: str) -> None:
    watched_reader.open(f"#/leaderboard/{quote(ROUNDS, safe='')}")
    watched_reader.main.locator(".round summary").first.click()
    watched_reader.sees(TEXTS[0])


@pytest.mark.parametrize("text", TEXTS)
def test_hostile_addresses_stay_text(watched_reader: Reader, text: str) -> None:
    for address in (f"#/{quote(text, safe='')}", f"#/search/hostile?q={quote(text, safe='')}"):
        watched_reader.open(address)
    watched_reader.open(f"#/playbooks/{quote(text, safe='')}")
    watched_reader.sees("The request failed")
    watched_reader.complaints.clear()  # the browser logs that the gateway refuses the name


def test_the_browser_blocks_untrusted_html_and_scripts(watched_reader: Reader) -> None:
    watched_reader.open("#/playbooks")
    for way in ("document.body.innerHTML = '<b>x</b>'", "setTimeout('1')", "document.write('x')"):
        with (
            watched_reader.page.expect_console_message(
                lambda message: message.text.startswith("policy require-trusted-types")
            ),
            pytest.raises(Error, match=r"TrustedHTML|TrustedScript"),
        ):
            watched_reader.page.evaluate(f"() => {{ {way} }}")
    watched_reader.complaints.clear()


def _import(dataset: str, book: dict[str, object], address: str) -> None:
    head = playbook_service_pb2.ImportHead(request_id=str(uuid.uuid4()), dataset=dataset, reason="hostile")
    parts = [
        playbook_service_pb2.ImportPlaybookRequest(head=head),
        playbook_service_pb2.ImportPlaybookRequest(chunk=json.dumps(book).encode()),
    ]
    with grpc.insecure_channel(address) as channel:
        playbook_service_pb2_grpc.PlaybookServiceStub(channel).ImportPlaybook(iter(parts))
