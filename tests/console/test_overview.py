"""The home page: its first run, its numbers, and what it leads to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.console.reader import Reader
from tests.console.windows import Stack, reading
from tests.support import systems

FAILURE, SUCCESS = "TRAJECTORY_STATUS_FAILURE", "TRAJECTORY_STATUS_SUCCESS"


@pytest.fixture(scope="module")
def empty_hansei(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a hansei without data."""
    http = f"127.0.0.1:{systems.free_port()}"
    with systems.one_process(tmp_path_factory.mktemp("empty"), HANSEI_HTTP_ADDRESS=http):
        yield f"http://{http}"


USAGE = {"input_tokens": "1000", "cached_input_tokens": "400", "output_tokens": "200"}


def push(number: int, status: str, served: list[str]) -> dict[str, object]:
    """Return a trajectory of the agent `pusher`, which fails always with the same error.

    Each second one states its tokens, and the first one its cost.
    """
    call = {"id": "1", "name": "git", "arguments": "{}"}
    result = "pushed" if status == SUCCESS else "error: failed to push some refs to 'origin'\nexit code 1"
    return {
        "id": f"push-{number}",
        "query": "Push the branch",
        "status": status,
        "used_bullet_ids": served,
        "created_at": f"2026-11-{10 + number:02d}T10:00:00Z",
        **({} if number % 2 else {"usage": USAGE | ({} if number else {"cost_usd": 0.5})}),
        "steps": [
            {"role": "STEP_ROLE_ASSISTANT", "name": "pusher", "tool_calls": [call]},
            {"role": "STEP_ROLE_TOOL", "name": "git", "tool_call_id": "1", "content": result},
        ],
    }


def test_a_new_user_loads_the_examples_and_sees_a_playbook(browser: Browser, empty_hansei: str) -> None:
    with reading(browser, empty_hansei) as visitor:
        visitor.open("")
        visitor.sees("hansei reads what your agents did")
        visitor.page.get_by_role("tab", name="Python").click()
        expect(visitor.page.get_by_role("tabpanel")).to_contain_text("from hansei.client import Client")
        expect(visitor.page.get_by_role("tabpanel")).to_contain_text('client.search("devtools"')
        visitor.page.keyboard.press("ArrowRight")
        expect(visitor.page.get_by_role("tab", name="MCP")).to_be_focused()
        visitor.button("Load the example trajectories").click()
        expect(visitor.page).to_have_url(re.compile("#/overview[?]dataset=devtools"), timeout=60_000)
        expect(visitor.main.locator(".total").filter(has_text="Bullets")).not_to_contain_text("–")
        expect(visitor.page.get_by_role("region", name="Growth of the playbook")).to_contain_text("bullets now")


def test_the_overview_shows_success_errors_and_agents(reader: Reader, stack: Stack) -> None:
    ids = stack.seeds.playbook("measured", 6)
    for number in range(8):
        served = ids[:1] if number % 2 else []
        stack.seeds.archive("measured", push(number, SUCCESS if served or number == 0 else FAILURE, served))
    reader.open("#/overview?dataset=measured")
    totals = reader.main.locator(".total")
    expect(totals.filter(has_text="Success with the playbook")).to_contain_text("100 %")
    expect(totals.filter(has_text="Success without it")).to_contain_text("25 %")
    expect(totals.filter(has_text="Success without it")).to_contain_text(
        "95 % confidence interval 5 % to 70 %, 4 trajectories"
    )
    errors = reader.page.get_by_role("region", name="Repeated and prevented errors")
    expect(errors.get_by_role("row", name="Without it")).to_contain_text(re.compile("4.*3.*2.*50 %"))
    expect(errors).to_contain_text("Prevented with the playbook, estimated: +2 repeated errors")
    agents = reader.page.get_by_role("region", name="Agents").first
    expect(agents).to_contain_text("pusher")
    expect(agents.get_by_role("row", name="pusher")).to_contain_text(re.compile("4,800.*50 %.*\\$0.50.*13 %"))
    tokens = reader.page.get_by_role("region", name="Tokens by day").first
    expect(tokens).to_contain_text("4,800 tokens: 4,000 for input (1,600 cached) and 800 for output.")
    expect(tokens).to_contain_text("4 of 8 trajectories state them.")
    expect(tokens).to_contain_text("Cost: $0.50. 1 of 8 trajectories state it.")
    expect(tokens.get_by_role("img", name=re.compile("^Tokens by day"))).to_be_visible()
    expect(reader.main.get_by_role("img", name=re.compile("^Success rate by day"))).to_be_visible()
    expect(reader.main.get_by_role("link", name=re.compile("^Waiting for a person"))).to_be_visible()


def test_snippets_connect_to_this_gateway_and_dataset(reader: Reader, stack: Stack) -> None:
    stack.seeds.playbook("connected", 1)
    reader.open("#/overview?dataset=connected")
    reader.page.get_by_text("Connect an agent").click()
    ways = reader.main.locator(".connect pre")
    expect(ways.nth(0)).to_have_text(
        f"hansei hooks install claude --dataset connected --url {stack.url} --addr {stack.address}"
    )
    expect(ways.nth(1)).to_contain_text(f'Client("{stack.address}")')
    expect(ways.nth(1)).to_contain_text('client.search("connected"')
    entry = json.loads(ways.nth(2).text_content() or "")["mcpServers"]["hansei"]
    assert entry == {"command": "hansei", "args": ["mcp", "--dataset", "connected", "--addr", stack.address]}
    expect(ways.nth(3)).to_contain_text(f"curl {stack.url}/v1/search")
    expect(ways.nth(3)).to_contain_text('{"dataset": "connected"')


def test_days_far_apart_have_visible_bars(reader: Reader, stack: Stack) -> None:
    stack.seeds.playbook("far-apart", 1)
    for number, day in enumerate(("2026-01-05", "2026-11-28")):
        stack.seeds.archive("far-apart", push(number, SUCCESS, []) | {"created_at": f"{day}T10:00:00Z"})
    reader.open("#/overview?dataset=far-apart")
    chart = reader.page.get_by_role("img", name="Trajectories by day").first
    bars = chart.locator("rect")
    expect(bars).to_have_count(2)
    for bar in bars.all():
        assert float(bar.get_attribute("width") or 0) == 40
        assert 52 <= float(bar.get_attribute("x") or 0) <= 640 - 12 - 40


def test_tokens_and_cost_that_no_trajectory_states_are_unknown(reader: Reader, stack: Stack) -> None:
    stack.seeds.playbook("unstated", 1)
    stack.seeds.archive("unstated", push(1, SUCCESS, []))
    reader.open("#/overview?dataset=unstated")
    tokens = reader.page.get_by_role("region", name="Tokens by day").first
    expect(tokens).to_contain_text("Tokens are unknown: no trajectory states them.")
    expect(tokens).to_contain_text("The cost is unknown: no trajectory states it.")
    agents = reader.page.get_by_role("region", name="Agents").first
    expect(agents.get_by_role("row", name="pusher")).to_contain_text(re.compile("–.*0 %.*–.*0 %"))
    expect(agents).not_to_contain_text("$")


def test_the_first_view_is_small(reader: Reader, stack: Stack) -> None:
    reader.open("#/overview")
    sizes = "performance.getEntriesByType('resource').filter(({name}) => name.includes('/console/'))"
    transferred = reader.page.evaluate(f"{sizes}.reduce((sum, {{encodedBodySize: size}}) => sum + size, 0)")
    assert 0 < transferred <= 300_000
