"""The files of the console and their headers; tests/console tests the page in a browser."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import httpx
import pytest
from starlette.responses import PlainTextResponse

from gateway.console.files import ASSETS, INDEX, PAGE, PREFIX, Console, load

SOURCES = sorted(PAGE.rglob("*.js"))


def client() -> httpx.AsyncClient:
    """Return a client of the console with an application behind it that answers everything."""
    app = Console(PlainTextResponse("behind"))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://hansei")


async def index() -> str:
    async with client() as http:
        return (await http.get(PREFIX)).text


@pytest.mark.parametrize("path", ["/", "/console"])
async def test_other_addresses_redirect_to_the_page(path: str) -> None:
    async with client() as http:
        response = await http.get(path)
    assert (response.status_code, response.headers["location"]) == (307, PREFIX)


async def test_the_page_is_revalidated_and_its_files_are_cached() -> None:
    async with client() as http:
        page = await http.get(PREFIX)
        assets = [
            await http.get(PREFIX + name) for name in re.findall(r'(?:href|src)="([0-9a-f]{16}/[^"]+)"', page.text)
        ]
    assert page.headers["cache-control"] == "no-cache"
    assert {asset.status_code for asset in assets} == {200}
    assert all("immutable" in asset.headers["cache-control"] for asset in assets)
    assert {asset.headers["content-type"].partition(";")[0] for asset in assets} == {
        "text/css",
        "text/javascript",
        "image/svg+xml",
    }


async def test_the_page_has_its_modules_in_one_script() -> None:
    """The texts are another script, which loads those of the reader's language meanwhile."""
    scripts = re.findall(r'<script type="module" src="([^"]+)"', await index())
    assert [name.partition("/")[2] for name in scripts] == ["js/texts.js", "js/main.js"]
    async with client() as http:
        script = (await http.get(PREFIX + scripts[-1])).text
    parts = re.findall(r"^// (js/\S+)$", script, re.MULTILINE)
    sources = [path.relative_to(PAGE).as_posix() for path in SOURCES]
    assert sorted(parts) == sorted(name for name in sources if not name.startswith("js/texts"))
    assert parts[-1] == "js/main.js"
    assert re.findall(r"^(?:import|export) .*", script, re.MULTILINE) == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.relative_to(PAGE).as_posix())
def test_modules_import_and_export_only_names_that_do_not_change(source: Path) -> None:
    """The gateway joins modules by these lines; an exported `let` would have its first value in the joined script."""
    lines = re.findall(r"^(?:import|export)\b.*", source.read_text(encoding="utf-8"), re.MULTILINE)
    forms = (
        r"import (\{|\* as \w+ from \").*",
        r"export ((async )?function\*?|class|const) \w+.*",
        "export default {",
    )
    assert [line for line in lines if not any(re.match(form, line) for form in forms)] == []


def test_modules_that_import_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "js").mkdir()
    (tmp_path / INDEX).write_text('<script type="module" src="assets/js/main.js"></script>')
    (tmp_path / "js/main.js").write_text('import { draw } from "./chart.js";\ndraw();\n')
    (tmp_path / "js/chart.js").write_text('import { start } from "./main.js";\nexport const draw = () => start();\n')
    with pytest.raises(ValueError, match=r"each other: js/main\.js → js/chart\.js → js/main\.js"):
        load(tmp_path)


async def test_the_page_has_one_style_sheet_that_holds_all() -> None:
    page = await index()
    (name,) = re.findall(r'rel="stylesheet" href="([^"]+)"', page)
    async with client() as http:
        styles = (await http.get(PREFIX + name)).text
    sources = [path.read_text(encoding="utf-8") for path in PAGE.rglob("*.css")]
    assert len(sources) > 5
    assert [source for source in sources if source not in styles] == []


@pytest.mark.parametrize("path", [PREFIX, f"{PREFIX}nothing", "/"])
async def test_every_response_has_a_strict_content_security_policy(path: str) -> None:
    async with client() as http:
        headers = (await http.get(path)).headers
    policy = dict(directive.split(" ", 1) for directive in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert policy["trusted-types"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["%2e%2e/files.py", "index.html", "0000000000000000/js/main.js"])
async def test_only_the_files_of_the_page_are_served(path: str) -> None:
    async with client() as http:
        assert (await http.get(PREFIX + path)).status_code == 404


async def test_other_paths_are_passed_to_the_application() -> None:
    async with client() as http:
        assert (await http.get("/v1/playbooks")).text == "behind"
        assert (await http.get("/consoles")).text == "behind"
        assert (await http.post("/console/")).status_code == 405


async def test_files_are_compressed_for_clients_that_accept_it() -> None:
    async with client() as http:
        plain = await http.get(PREFIX, headers={"accept-encoding": "identity"})
        async with http.stream("GET", PREFIX, headers={"accept-encoding": "gzip"}) as packed:
            body = b"".join([part async for part in packed.aiter_raw()])
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(body) == plain.content


async def test_the_page_has_no_inline_code_and_no_external_files() -> None:
    text = await index()
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=", text) == []
    elsewhere = re.compile(rb"https?://(?!www\.w3\.org/2000/svg)|url\((?!#)|@import")
    assert [path.name for path in PAGE.rglob("*") if path.is_file() and elsewhere.search(path.read_bytes())] == []
    assert ASSETS not in text


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.relative_to(PAGE).as_posix())
def test_no_text_can_become_markup_or_code(source: Path) -> None:
    ways = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "DOMParser")
    others = ("createContextualFragment", "srcdoc", "setHTML", "createPolicy")
    text = source.read_text(encoding="utf-8")
    assert [name for name in (*ways, *others) if name in text] == []


def test_the_index_is_no_asset() -> None:
    assert (PAGE / INDEX).exists()
    assert not (PAGE / ASSETS).exists()
