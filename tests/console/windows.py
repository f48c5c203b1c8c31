"""Start a hansei with data, and open windows of a browser on it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from playwright.sync_api import Browser, Page

from tests.console.reader import Reader
from tests.console.seeds import Seeds, comparison, failed_push
from tests.support import systems

SECONDS = 60
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
HEADLESS_FIRST = ("chromium-headless-shell", *BROWSERS)
"""The headless shell has the same engine, and opens a window with half the processor time."""
BULLETS = 1_000


@dataclass(frozen=True)
class FilledHansei:
    """A running hansei: its addresses for people and programs, and its data."""

    url: str
    address: str
    thousand: list[str]
    running: str
    ended: str


@dataclass(frozen=True)
class Stack(FilledHansei):
    """A running hansei with the seeds that can add to it."""

    seeds: Seeds


def find_program(names: Sequence[str]) -> str | None:
    """Return the path of the first of these programs that is installed."""
    return next(filter(None, map(shutil.which, names)), None)


@contextmanager
def filled_hansei(data: Path) -> Iterator[FilledHansei]:
    """Start a hansei in one process with data as if it had been in use for a while."""
    http = f"127.0.0.1:{systems.free_port()}"
    with (
        systems.one_process(data, HANSEI_HTTP_ADDRESS=http) as system,
        httpx.Client(base_url=f"http://{http}", timeout=SECONDS) as client,
    ):
        seeds = Seeds(client, system.address)
        thousand = seeds.playbook("thousand", BULLETS)
        seeds.archive("thousand", failed_push("run-import"), thousand[:2])
        seeds.queue("queue", BULLETS)
        seeds.rounds("rounds-1", teams=6, rounds=5)
        ended = seeds.execution("Nobody knows anything about this")
        paused = seeds.execution("Compare locked databases and tokens", steps=comparison("thousand"))
        yield FilledHansei(f"http://{http}", system.address, thousand, paused, ended)


@contextmanager
def reading(browser: Browser, url: str, **context: object) -> Iterator[Reader]:
    """Open a window for one reader; any error in the browser's console fails the test."""
    window = browser.new_context(**{"viewport": {"width": 1360, "height": 850}, **context})  # type: ignore[arg-type]
    page: Page = window.new_page()
    reader = Reader(page, url)
    yield reader
    complaints = list(reader.complaints)
    window.close()
    assert complaints == [], complaints
