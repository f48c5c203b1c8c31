"""Hooks of MkDocs: READMEs become pages, folders are listed, links and requests stay within the site.

A README is written where its code is; here it is read under `services/`. A link to a file of the repository that is no
page of the site becomes plain text.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parents[1]))
from docs.reference_pages import render_pages

ROOT = Path(__file__).parents[1]
_SERVICES = [f"services/{page.parent.name}" for page in sorted(ROOT.glob("services/*/README.md"))]
READMES = {
    f"{folder}/README.md": f"services/{folder.rpartition('/')[2]}.md"
    for folder in ("gateway", *_SERVICES, "sdk", "chassis", "deploy")
}
"""The pages of READMEs, by file."""
FOLDERS = {
    "Services": "services/",
    "Contracts": "reference/contracts/",
    "Operations": "operations/",
    "Decisions": "adr/",
}
ONLY_THIS_HOST = (
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; object-src 'none'\">"
)
_SOURCES = {page: source for source, page in READMES.items()}
_LINK = re.compile(r"\[([^\[\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
_FENCED = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add the READMEs and the generated references as pages."""
    for page, text in render_pages().items():
        files.append(File.generated(config, page, content=text))
    for source, page in READMES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    config.nav = expand_navigation(config.nav, files)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite links that are relative to the file in the repository to links of the site."""
    here = _SOURCES.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    parts = _FENCED.split(markdown)
    return "".join(part if number % 2 else relink(part, here, page) for number, part in enumerate(parts))


def on_post_page(output: str, **_: Any) -> str:
    """Forbid browsers to load the scripts of other hosts that the theme requests for some pages."""
    return output.replace("<head>", f"<head>{ONLY_THIS_HOST}", 1)


def on_post_template(output_content: str, **_: Any) -> str:
    """Forbid them for pages without a source, too, for example the page of errors."""
    return on_post_page(output_content)


def expand_navigation(entries: list[Any], files: Files) -> list[Any]:
    """Return the navigation with the pages of its folders filled in, the index of each folder first."""
    found: list[Any] = []
    for entry in entries:
        ((title, inside),) = entry.items()
        if title in FOLDERS:
            inside = sorted(
                (file.src_uri for file in files.documentation_pages() if file.src_uri.startswith(FOLDERS[title])),
                key=lambda uri: (not uri.endswith(("index.md", "README.md")), uri),
            )
        elif isinstance(inside, list):
            inside = expand_navigation(inside, files)
        found.append({title: inside})
    return found


def relink(text: str, here: str, page: Any) -> str:
    """Return the text of a README with its links leading to pages of the site."""

    def link(found: re.Match[str]) -> str:
        label, target, anchor = found[1], found[2], found[3] or ""
        if not target or re.match(r"[a-z]+:", target):
            return found[0]
        meant = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
        uri = READMES.get(meant) or READMES.get(f"{meant}/README.md")
        if uri is None and meant.startswith("docs/"):
            uri = meant.removeprefix("docs/")
        if uri is None:
            return label
        return f"[{label}]({posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or '.')}{anchor})"

    return _LINK.sub(link, text)
