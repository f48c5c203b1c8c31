"""Pages on paper: Chromium prints them, and the tests read the PDF."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pypdfium2
import pytest
from playwright.sync_api import Browser, PdfMargins, expect

from tests.console.reader import Reader
from tests.console.test_access import addresses
from tests.console.windows import BULLETS, Stack, reading

PAPER = {"width": 718, "height": 1047}
"""The pixels of A4 within the margins below."""
MARGINS = PdfMargins(top="10mm", right="10mm", bottom="10mm", left="10mm")
NAVIGATION = ("Skip to the content", "Leaderboard", "Theme:", "Keyboard")
CUT = """() => [...document.querySelectorAll("main *")]
  .filter((each) => each.checkVisibility() && getComputedStyle(each).display !== "inline")
  .filter((each) => !each.matches(".hidden-label, svg *") && each.scrollWidth > each.clientWidth + 1)
  .filter((each) => each.clientWidth > 0 && getComputedStyle(each).overflowX !== "visible"
    || each.getBoundingClientRect().right > innerWidth + 1)
  .map((each) => each.outerHTML.slice(0, 120))"""
"""The elements that cut their contents, or that the edge of the paper cuts."""


@dataclass(frozen=True)
class Print:
    """The text of a printed page, and how light its paper is."""

    text: str
    darkest_corner: int
    """The brightness of the darkest corner of the pages, 0 to 255."""


def print_page(reader: Reader) -> Print:
    document = pypdfium2.PdfDocument(reader.page.pdf(format="A4", margin=MARGINS, print_background=True))
    texts, corners = [], []
    for page in document:
        texts.append(page.get_textpage().get_text_bounded())
        picture = page.render(scale=0.5, grayscale=True).to_pil()
        right, bottom = picture.width - 1, picture.height - 1
        corners += [picture.getpixel(corner) for corner in ((0, 0), (right, 0), (0, bottom), (right, bottom))]
    return Print("\n".join(texts), min(corners))


@pytest.fixture
def dark(browser: Browser, stack: Stack) -> Iterator[Reader]:
    """Yield a reader who prefers dark pages."""
    with reading(browser, stack.url, color_scheme="dark") as reader:
        yield reader


def test_a_playbook_is_printed_whole_light_and_without_the_navigation(dark: Reader) -> None:
    dark.open("#/playbooks/thousand")
    expect(dark.main.get_by_text(re.compile("^1,000 bullets"))).to_be_visible()  # not "200 of 1,000 bullets"
    dark.press("t", "t")  # the reader chose the dark theme, too
    printed = print_page(dark)
    assert len(set(re.findall(r"\((\d+)\)", printed.text))) == BULLETS - 3  # three have a text without a number
    assert printed.darkest_corner > 250
    assert not [word for word in NAVIGATION if word in printed.text]
    assert dark.rows.count() < 100  # as before


def test_charts_and_tables_are_printed(dark: Reader) -> None:
    dark.open("#/health")
    printed = print_page(dark)
    assert "Embedding model" in printed.text
    assert printed.darkest_corner > 250


def test_paper_cuts_nothing(browser: Browser, stack: Stack) -> None:
    with reading(browser, stack.url, viewport=PAPER) as reader:
        reader.page.emulate_media(media="print")
        found = {}
        for address in addresses(stack):
            reader.open(address)
            found[address] = reader.page.evaluate(CUT)
        reader.expect_only_refusals("404")
    assert {address: cut for address, cut in found.items() if cut} == {}
