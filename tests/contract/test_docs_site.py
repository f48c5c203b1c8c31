"""The docs site builds without a warning, and neither building nor reading it asks any other host for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from docs.reference_pages import SDK_MODULES
from hansei.client.cli.examples import EXAMPLES
from tests.support import systems

ROOT = Path(__file__).parents[2]
BUILD = """
import sys

def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        sys.exit(f"the build wants to reach {arguments}")

sys.addaudithook(watch)
from mkdocs.__main__ import cli
cli(["build", "--strict", "--site-dir", sys.argv[1]])
"""
LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src"}


class LoadedUrls(HTMLParser):
    """Collect the URLs that a browser fetches by itself when it shows a page."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        name = LOADS.get(tag) or ("href" if tag == "link" and found.get("rel") != "canonical" else None)
        if name and found.get(name):
            self.urls.append(str(found[name]))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(target)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return target


def pages(site: Path) -> Iterator[Path]:
    yield from site.glob("**/*.html")


def test_a_page_is_there_for_every_task_service_contract_and_decision(site: Path) -> None:
    built = {str(page.relative_to(site)) for page in pages(site)}
    expected = {f"services/{name}/index.html" for name in (*systems.SERVICES, "sdk", "chassis", "deploy")}
    for folder in ("tasks", "reference/contracts", "adr"):
        names = {path.stem for path in (ROOT / "docs" / folder).glob("*.md")} - {"index", "README"}
        expected |= {f"{folder}/{name}/index.html" for name in names}
    assert expected <= built
    expected = {f"reference/{name}/index.html" for name in ("cli", "sdk", "http", "settings")}
    assert expected | {"index.html", "operations/index.html"} <= built


def test_the_references_have_every_command_and_every_class(site: Path) -> None:
    text = (site / "reference/cli/index.html").read_text(encoding="utf-8")
    assert all(f'id="hansei-{name.replace(" ", "-")}"' in text for name in EXAMPLES)
    classes = (site / "reference/sdk/index.html").read_text(encoding="utf-8")
    assert all(f'id="{module}.{name}"' in classes for module, names in SDK_MODULES for name in names)
    assert 'id="hansei.client.client.Client.search"' in classes
    paths = (site / "reference/http/index.html").read_text(encoding="utf-8")
    assert "<code>POST /v1/playbooks/{dataset}/trajectories</code>" in paths


def test_references_name_no_clause_of_the_specification(site: Path) -> None:
    texts = [page.read_text(encoding="utf-8") for page in (site / "reference").glob("**/*.html")]
    assert [found for text in texts for found in re.findall(r"\([A-Z]-\d+[^)]*\)", text)] == []


def test_browsers_fetch_nothing_from_elsewhere(site: Path) -> None:
    for page in pages(site):
        text = page.read_text(encoding="utf-8")
        loaded = LoadedUrls()
        loaded.feed(text)
        assert [url for url in loaded.urls if re.match(r"(https?:)?//", url)] == [], page
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
        assert policy, page
        assert "http" not in policy[1]
        # Mermaid is the only file that the theme would fetch from another host; without it, diagrams are shown as text.
        assert 'class="mermaid"' not in text, page
    for sheet in site.glob("**/*.css"):
        urls = re.findall(r"url\(([^)]*)\)", sheet.read_text(encoding="utf-8"))
        assert [url for url in urls if re.match(r"[\"']?(https?:)?//", url)] == [], sheet
