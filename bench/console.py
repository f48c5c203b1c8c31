"""Measure how soon the console shows a playbook, and whether ten thousand bullets scroll without a stall.

`python -m bench.console` writes `bench/results/console.json` and the tables in `bench/README.md`. A headless Chromium
with an empty cache opens the page of a playbook; it is usable when rows are shown and one can be chosen. The floor is
the same browser opening an empty page of the same server.
"""

from __future__ import annotations

import os
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, Page, sync_playwright

from bench.load import wait_until_idle
from bench.report import machine, write
from tests.console.seeds import Seeds
from tests.console.windows import ARGUMENTS, BROWSERS, find_program
from tests.support import systems

RUNS = 9
SIZES = {"thousand": 1_000, "ten-thousand": 10_000}
STEPS = 300
STALL_MS = 50
"""From here on browsers call a task long."""

SCROLL = """async (steps) => {
  const tasks = [];
  const observer = new PerformanceObserver((list) => tasks.push(...list.getEntries().map((each) => each.duration)));
  observer.observe({ entryTypes: ["longtask"] });
  const list = document.querySelector(".virtual");
  const frame = () => new Promise(requestAnimationFrame);
  const gaps = [];
  let last = await frame();
  for (let i = 1; i <= steps; i += 1) {
    list.scrollTop = ((list.scrollHeight - list.clientHeight) * i) / steps;
    const now = await frame();
    gaps.push(now - last);
    last = now;
  }
  await frame();
  gaps.sort((a, b) => a - b);
  return { tasks, gaps };
}"""


def main() -> None:
    """Measure and write. A full Chromium is needed, because users have one."""
    browser_path = find_program(BROWSERS)
    if browser_path is None:
        raise SystemExit(f"none of {', '.join(BROWSERS)} is installed: apt-get install chromium")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        http = f"127.0.0.1:{systems.free_port()}"
        environment = {"HANSEI_HTTP_ADDRESS": http, "HANSEI_LOG_LEVEL": "WARNING"}
        system = stack.enter_context(systems.one_process(Path(folder), **environment))
        client = stack.enter_context(httpx.Client(base_url=f"http://{http}", timeout=60))
        for name, size in SIZES.items():
            Seeds(client, system.address).playbook(name, size)
        wait_until_idle(system.processes["allinone"].pid)
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=browser_path, args=[*ARGUMENTS])
        rows = [_measure_first_view(browser, f"http://{http}", name) for name in ("", *SIZES)]
        rows += [_measure_scrolling(browser, f"http://{http}", name) for name in SIZES]
        version = browser.version
        browser.close()
    results = {"machine": {**machine(), "chromium": version}, "load": os.getloadavg()[0], "rows": rows}
    write("console", results)


def _measure_first_view(browser: Browser, url: str, dataset: str) -> dict[str, Any]:
    """Measure the time from the request for the page to selectable rows, with an empty cache."""
    what = f"first view, {SIZES[dataset]:,} bullets" if dataset else "an empty page"
    address = f"{url}/console/#/playbooks/{dataset}" if dataset else f"{url}/health"
    taken = [_measure(browser, lambda page: _open(page, address, bool(dataset))) for _ in range(RUNS)]
    return _row(what, [wall for wall, _ in taken], statistics.median(cpu for _, cpu in taken))


def _open(page: Page, address: str, rows: bool) -> None:
    page.goto(address, wait_until="commit")
    if rows:
        page.locator("[role=option]").first.wait_for()
        page.keyboard.press("j")
        page.locator("[role=option][aria-selected=true]").wait_for()


def _measure(browser: Browser, act: Callable[[Page], None]) -> tuple[float, float]:
    """Return the elapsed milliseconds, and the CPU milliseconds of the page's main thread."""
    context = browser.new_context(viewport={"width": 1360, "height": 850})
    page = context.new_page()
    main_thread = _main_thread(page)
    began = time.perf_counter()
    act(page)
    wall = (time.perf_counter() - began) * 1000
    cpu = main_thread()
    context.close()
    return wall, cpu


def _main_thread(page: Page) -> Callable[[], float]:
    """Tells the milliseconds of CPU that tasks on the main thread of a page have used from now on."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def used_ms() -> float:
        metrics = {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}
        return float(metrics["TaskDuration"]) * 1000

    return used_ms


def _measure_scrolling(browser: Browser, url: str, dataset: str) -> dict[str, Any]:
    """Scroll from the first bullet to the last in steps; measure the time between frames, and long tasks."""
    context = browser.new_context(viewport={"width": 1360, "height": 850})
    page = context.new_page()
    page.goto(f"{url}/console/#/playbooks/{dataset}")
    page.get_by_text(re.compile(f"^{SIZES[dataset]:,} bullets ·")).wait_for()  # all are read
    main_thread = _main_thread(page)
    timings = page.evaluate(SCROLL, STEPS)
    cpu = main_thread() / STEPS
    context.close()
    stalls = [task for task in timings["tasks"] if task >= STALL_MS]
    return _row(f"a frame while scrolling {SIZES[dataset]:,}", timings["gaps"], cpu, stalls)


def _row(what: str, times: list[float], cpu: float, stalls: list[float] | None = None) -> dict[str, Any]:
    ordered = sorted(times)
    return {
        "what": what,
        "runs": len(times),
        "p50_ms": round(statistics.median(ordered), 1),
        "worst_ms": round(ordered[-1], 1),
        "cpu_ms": round(cpu, 2),
        "long_tasks": len(stalls) if stalls is not None else "",
    }


if __name__ == "__main__":
    main()
