"""The pictures of the console in the docs; `HANSEI_WRITE_PICTURES=1` with this file as test writes them anew."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.console.reader import Reader
from tests.console.windows import Stack, reading

PICTURES = Path(__file__).parents[2] / "docs/pictures"
DATASET = "orders"
TARGET = "call.tool == 'refund' && !succeeded('get_order')"
DAYS = 14
LARGEST = 180_000
"""Bytes of a picture: a page of the docs stays small."""
WIDTH = 1200
PAGES = {
    "overview": (f"#/overview?dataset={DATASET}", 1320),
    "evidence": (f"#/evidence/{DATASET}", 760),
    "guards": (f"#/guards/{DATASET}?bullet={{guard}}", 760),
}
"""The address and the height of each picture."""


@pytest.fixture(scope="module")
def visitor(browser: Browser, stack: Stack) -> Iterator[tuple[Reader, str]]:
    """A reader of a dataset with two weeks of trajectories, trials and a guard, and the bullet of the guard."""
    stack.seeds.trials(DATASET, sessions=60)
    target = {"expression": TARGET, "mode": "TARGET_MODE_ADVISE"}
    lesson = {"type": "DELTA_TYPE_ADD", "section": "apis_to_use", "content": "Look the order up before a refund."}
    done = stack.seeds.deltas(DATASET, [{**lesson, "target": target}], "refunds")
    guard = str(done["operations"][0]["bullet_id"])
    for number in range(4 * DAYS):
        stack.seeds.archive(DATASET, refund(number, guard))
    with reading(browser, stack.url, color_scheme="light", reduced_motion="reduce") as reader:
        yield reader, guard


def refund(number: int, guard: str) -> dict[str, object]:
    """A trajectory that fails if it refunds without a look at the order; those of later days are served the lesson.

    Each states its tokens, and each second one its cost.
    """
    day, served = number // 4 + 1, number >= 2 * DAYS
    is_careful = served or number % 3 > 0
    calls = [("get_order", '{"total": 30}'), ("refund", '{"status": "done"}')]
    if not is_careful:
        calls = [("refund", "error: the order is not refundable")]
    usage = {"input_tokens": 2_400 + 90 * (number % 9), "cached_input_tokens": 1_100, "output_tokens": 310}
    steps: list[dict[str, object]] = []
    for position, (tool, result) in enumerate(calls):
        call = {"id": str(position), "name": tool, "arguments": '{"order": "A-1"}'}
        steps.append({"role": "STEP_ROLE_ASSISTANT", "name": "clerk", "tool_calls": [call]})
        steps.append({"role": "STEP_ROLE_TOOL", "name": tool, "tool_call_id": str(position), "content": result})
    return {
        "id": f"refund-{number}",
        "query": f"Refund order A-{number}",
        "status": "TRAJECTORY_STATUS_SUCCESS" if is_careful else "TRAJECTORY_STATUS_FAILURE",
        "reward": float(is_careful),
        "used_bullet_ids": [guard] if served else [],
        "created_at": f"2026-11-{day:02d}T10:00:00Z",
        "usage": {**usage, **({} if number % 2 else {"cost_usd": 0.002 + 0.0002 * (number % 7)})},
        "steps": steps,
    }


@pytest.mark.parametrize("name", PAGES)
def test_a_picture_shows_its_page(visitor: tuple[Reader, str], name: str, tmp_path: Path) -> None:
    reader, guard = visitor
    address, height = PAGES[name]
    reader.page.set_viewport_size({"width": WIDTH, "height": height})
    reader.open(address.format(guard=guard))
    if name == "guards":
        reader.sees("passed trajectories")
    picture = tmp_path / f"{name}.png"
    reader.page.screenshot(path=picture)
    if os.environ.get("HANSEI_WRITE_PICTURES"):
        PICTURES.mkdir(exist_ok=True)
        (PICTURES / picture.name).write_bytes(picture.read_bytes())
    stored = (PICTURES / picture.name).read_bytes()
    assert picture.stat().st_size < LARGEST
    assert len(stored) < LARGEST
    assert stored[16:24] == picture.read_bytes()[16:24]  # width and height
