"""Ten thousand bullets: the document always has the visible rows, and only those."""

from __future__ import annotations

from typing import Any

import httpx
from playwright.sync_api import expect

from tests.console.reader import Reader
from tests.console.windows import Stack

BULLETS = 10_000
STEPS = 60
IN_SIGHT = 60
"""More rows than fit in the window with those kept ready above and below."""

WALK = """async (steps) => {
  const list = document.querySelector(".virtual");
  const frame = () => new Promise(requestAnimationFrame);
  const seen = { most: 0, blank: [], wrong: [] };
  for (let i = 0; i <= steps; i += 1) {
    list.scrollTop = ((list.scrollHeight - list.clientHeight) * i) / steps;
    await frame();
    await frame();
    const rows = [...list.querySelectorAll("[role=option]")];
    const { top, bottom } = list.getBoundingClientRect();
    const edges = rows.map((row) => row.getBoundingClientRect());
    seen.most = Math.max(seen.most, rows.length);
    if (Math.min(...edges.map((each) => each.top)) > top + 1) seen.blank.push(i);
    if (Math.max(...edges.map((each) => each.bottom)) < bottom - 2) seen.blank.push(i);
    for (const row of rows) {
      const place = row.getBoundingClientRect().top - top + list.scrollTop;
      if (Math.abs(place / row.offsetHeight + 1 - Number(row.getAttribute("aria-posinset"))) > 0.1) seen.wrong.push(i);
    }
  }
  return seen;
}"""


def test_ten_thousand_bullets_are_scrolled_through(reader: Reader, stack: Stack) -> None:
    stack.seeds.playbook("ten-thousand", BULLETS)
    reader.open("#/playbooks/ten-thousand")
    expect(reader.main.get_by_text("10,000 bullets · revision 12", exact=True)).to_be_visible()  # all are read
    seen: dict[str, Any] = reader.page.evaluate(WALK, STEPS)
    assert seen["blank"] == []
    assert seen["wrong"] == []
    assert seen["most"] <= IN_SIGHT
    reader.page.locator(".virtual").focus()
    reader.press("End")
    expect(reader.chosen_row).to_have_attribute("aria-posinset", str(BULLETS))
    reader.page.get_by_label("Filter bullets").fill("(9876)")
    reader.sees("1 of 10,000 bullets")
    reader.open("#/overview?dataset=ten-thousand")
    expect(reader.main.locator(".total").filter(has_text="Bullets")).to_contain_text("10,000")


def test_all_pages_of_datasets_are_listed(reader: Reader, stack: Stack) -> None:
    names = [f"paged-{letter}" for letter in "abc"]
    for name in names:
        stack.seeds.playbook(name, 1)
    reader.page.route(
        "**/v1/playbooks?*",
        lambda route: route.continue_(url=route.request.url.replace("page_size=1000", "page_size=2")),
    )
    reader.open("#/search/thousand")
    choice = reader.main.get_by_label("Dataset")
    for name in names:
        expect(choice.locator(f"option[value={name}]")).to_have_count(1)
    everything = httpx.get(f"{stack.url}/v1/playbooks", params={"page_size": 1000}).json()["datasets"]
    reader.open("#/playbooks")
    reader.sees(f"{len(everything)} datasets")
