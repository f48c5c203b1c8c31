"""The documents for developers name what the code has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from google.protobuf import descriptor_pool

from docs.reference_pages import render_pages
from libs.llm.providers import PROVIDERS

ROOT = Path(__file__).parents[2]
SERVICES = yaml.safe_load((ROOT / "deploy/services.yaml").read_text(encoding="utf-8"))["services"]
FOLDERS = ("allinone", "bench", "chassis", "deploy", "examples", "gateway", "libs", "sdk", "services", "wheels")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])
"""The pages beside the docs site, whose build checks its own links."""


def find_calls(caller: str) -> Iterator[tuple[str, str]]:
    """Yield each callee and each of its methods that the code of a service names."""
    folder = ROOT / ("gateway" if caller == "gateway" else f"services/{caller}")
    names = set()
    for file in folder.rglob("*.py"):
        # A servicer has methods of its own, which may have the names of methods of others.
        if "tests" not in file.parts and (caller == "gateway" or "servicer" not in file.parts):
            nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
            names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
            names |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    for callee in SERVICES[caller]["calls"]:
        for contract in SERVICES[callee]["serves"]:
            yield from ((callee, name) for name in read_methods(contract) if name in names)


def read_methods(contract: str) -> list[str]:
    """Return the names of the methods of a contract."""
    package, _, service = contract.rpartition(".")
    stem = re.sub(r"(?<!^)(?=[A-Z])", "_", service).lower()
    import_module(f"{package}.{stem}_pb2")
    return [method.name for method in descriptor_pool.Default().FindServiceByName(contract).methods]


def test_the_table_of_calls_is_that_of_the_code() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## Calls between services")[2]
    rows = re.findall(r"^\| (\w+) \| (\w+) \| (.*) \|$", text.partition("\n## ")[0], re.MULTILINE)
    documented = {(caller, callee, name) for caller, callee, cell in rows for name in re.findall(r"`(\w+)`", cell)}
    assert documented == {(caller, *call) for caller in SERVICES for call in find_calls(caller)}


@pytest.mark.parametrize("library", sorted(path.parent.name for path in ROOT.glob("libs/*/README.md")))
def test_the_table_in_the_readme_of_a_library_names_each_module(library: str) -> None:
    text = (ROOT / "libs" / library / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `.*$", text, re.MULTILINE)
    listed = {name.removesuffix(".py") for row in rows for name in re.findall(r"`(\w+(?:\.py)?)`", row)}
    modules = {path.stem for path in (ROOT / "libs" / library).glob("*.py")} - {"__init__"}
    assert sorted(modules - listed) == []


def test_the_readme_of_models_names_each_provider() -> None:
    text = (ROOT / "libs/llm/README.md").read_text(encoding="utf-8")
    row = re.search(r"^\| `providers.py` \|.*$", text, re.MULTILINE)
    assert row
    assert [name for name in PROVIDERS if not re.search(rf"\b{name}\b", row[0])] == []


def list_headings(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub makes them."""
    lines = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_lead_to_files_and_headings(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    wrong = []
    for link in re.findall(r"\]\(([^)\s:]+)\)", text):
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        if not target.exists() or (anchor and anchor not in list_headings(target)):
            wrong.append(link)
    assert wrong == []


def test_the_readme_of_the_gateway_names_the_end_of_each_path_and_each_folder() -> None:
    text = (ROOT / "gateway/README.md").read_text(encoding="utf-8")
    paths = re.findall(r"[A-Z]+ (/v1/[^\s`<]+)", render_pages()["reference/http.md"])
    named = set(re.findall(r"/([a-z-]+)", text.partition("\n## HTTP")[2].partition("\n```")[0]))
    ends = {re.findall(r"/([a-z-]+)", path)[-1] for path in paths}
    assert len(paths) > 50
    assert sorted(ends - named) == []
    folders = {path.parent.name for path in (ROOT / "gateway").glob("*/__init__.py")}
    assert sorted(name for name in folders if f"| `{name}/` |" not in text) == []


def test_the_list_of_folders_is_complete() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("\n## Folders\n")[2].partition("\n## ")[0]
    listed = set(re.findall(r"^([\w/]+)/ ", text, re.MULTILINE))
    ignored = {line.strip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()}
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")}
    libraries = {f"libs/{path.parent.name}" for path in ROOT.glob("libs/*/__init__.py")}
    assert (folders - ignored - {"libs"}) | libraries | {"chassis/targets", "chassis/server"} == listed
