"""The console as its readers have it: a real Chromium before a real hansei that has been in use for a while."""

from __future__ import annotations

import os
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.console.reader import Reader
from tests.console.seeds import Seeds
from tests.console.windows import ARGUMENTS, HEADLESS_FIRST, SECONDS, Stack, filled_hansei, find_program, reading
from tests.support.shared_resources import get_shared


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    found = get_shared(filled_hansei)
    with httpx.Client(base_url=found.url, timeout=SECONDS) as client:
        yield Stack(**vars(found), seeds=Seeds(client, found.address))


# For each file, not for the session: while Playwright runs, its event loop occupies the thread.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = find_program(HEADLESS_FIRST)
    if found is None:
        assert not os.environ.get("HANSEI_REQUIRE_CHROMIUM"), "no Chromium is installed"
        pytest.skip("no Chromium is installed, so nothing looks at the console")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=[*ARGUMENTS])
        yield running
        running.close()


@pytest.fixture
def reader(browser: Browser, stack: Stack) -> Iterator[Reader]:
    """Yield a reader with a large screen."""
    with reading(browser, stack.url) as somebody:
        yield somebody
