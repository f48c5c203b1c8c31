"""The files of the page, and the headers under which a browser may use them."""

from __future__ import annotations

import gzip
import hashlib
import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX = "/console/"
REDIRECTED = {"/": PREFIX, "/console": PREFIX, "/docs": f"{PREFIX}#/api"}
"""Paths that redirect to a page of the console."""

PAGE = Path(__file__).parent / "page"
_IN_WHEEL = Path(__file__).parent / "examples"
EXAMPLES = _IN_WHEEL if _IN_WHEEL.is_dir() else Path(__file__).parents[2] / "examples/trajectories"
"""The recorded trajectories that a new user can load; an image of the gateway alone has none."""
EXAMPLES_NAME = "examples.jsonl"
INDEX = "index.html"
ASSETS = "assets/"
"""The folder of the other files in the index; it is served under a digest of them, so that browsers may cache them."""

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".jsonl": "application/jsonl; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""No inline code, no other hosts, and no text that becomes markup or script (Trusted Types without a policy)."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


_IMPORT = re.compile(r'^import (\* as \w+|\{[^}]*\}) from "(\.[^"]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const) (\w+))", re.MULTILINE)
_SCRIPT = re.compile(r'<script type="module" src="assets/([^"]+)"></script>')
_STYLE = re.compile(r'<link rel="stylesheet" href="assets/([^"]+)" />\n')
STYLES = "css/all.css"
"""The style sheets of the index as one file: a browser needs one request in place of ten."""


@dataclass(frozen=True, slots=True)
class File:
    """A file as the gateway sends it; `packed` is the body with gzip."""

    body: bytes
    packed: bytes
    media_type: str
    is_immutable: bool

    def build_response(self, headers: Headers) -> Response:
        """Return the response to a request with these headers."""
        packed = "gzip" in headers.get("accept-encoding", "")
        own = {
            "Cache-Control": "public, max-age=31536000, immutable" if self.is_immutable else "no-cache",
            "Vary": "Accept-Encoding",
            **({"Content-Encoding": "gzip"} if packed else {}),
        }
        return Response(self.packed if packed else self.body, headers={**HEADERS, **own}, media_type=self.media_type)


@cache
def load(page: Path = PAGE, examples: Path = EXAMPLES) -> Mapping[str, File]:
    """Return all files of the page by path; they are read and compressed once a process."""
    paths = sorted(path for path in page.rglob("*") if path.is_file())
    bodies = {path.relative_to(page).as_posix(): path.read_bytes() for path in paths}
    if recorded := sorted(examples.glob("*.json")):
        lines = (json.dumps(json.loads(path.read_bytes()), ensure_ascii=False) for path in recorded)
        bodies[EXAMPLES_NAME] = "\n".join(lines).encode()
    index = _join_styles(bodies.pop(INDEX).decode(), bodies)
    _join_modules(_SCRIPT.findall(index), bodies)
    digest = hashlib.sha256(b"".join(name.encode() + body for name, body in bodies.items())).hexdigest()[:16]
    files = {f"{PREFIX}{digest}/{name}": _read_file(name, body, is_immutable=True) for name, body in bodies.items()}
    files[PREFIX] = _read_file(INDEX, index.replace(f'"{ASSETS}', f'"{digest}/').encode(), is_immutable=False)
    return files


def _join_styles(index: str, bodies: dict[str, bytes]) -> str:
    """Replace the style sheets of the index by one, which is added to the bodies; return the index."""
    bodies[STYLES] = b"\n".join(bodies.pop(name) for name in _STYLE.findall(index))
    link = f'<link rel="stylesheet" href="{ASSETS}{STYLES}" />'
    return _STYLE.sub("", index).replace("</head>", f"{link}\n</head>")


def _join_modules(scripts: Sequence[str], bodies: dict[str, bytes]) -> None:
    """Put the last script of the index, and all modules that it imports, into one file: a browser needs one request.

    Each module becomes a block after those that it imports. The other scripts of the index stay files of their own,
    which browsers load at the same time as the joined one.
    """
    *others, main = scripts
    blocks: dict[str, str] = {}

    def add(name: str, importers: tuple[str, ...] = ()) -> None:
        if name in importers:
            raise ValueError(f"modules of the console import each other: {' → '.join((*importers, name))}")
        if name in blocks:
            return
        if name in others:
            blocks[name] = (
                f'modules["{name}"] = await import("./{posixpath.relpath(name, posixpath.dirname(main))}");\n'
            )
            return
        text = bodies.pop(name).decode()

        def bind(found: re.Match[str]) -> str:
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), found[2]))
            add(target, (*importers, name))
            return f'const {found[1].removeprefix("* as ").replace(" as ", ": ")} = modules["{target}"];'

        text = _IMPORT.sub(bind, text)
        exports = ", ".join(_EXPORT.findall(text))
        blocks[name] = f'{{\n// {name}\n{_EXPORT.sub("", text)}modules["{name}"] = {{ {exports} }};\n}}\n'

    add(main)
    bodies[main] = f"const modules = {{}};\n{''.join(blocks.values())}".encode()


def _read_file(name: str, body: bytes, *, is_immutable: bool) -> File:
    return File(body, gzip.compress(body, mtime=0), MEDIA_TYPES[Path(name).suffix], is_immutable)


class Console:
    """ASGI middleware that serves `/console/`, redirects `/` and `/docs` there, and forwards other requests.

    The files need no credential, because they have no data; the requests of the page do.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._files = load()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, or forward it."""
        ours = scope["type"] == "http" and (scope["path"] in REDIRECTED or scope["path"].startswith(PREFIX))
        answering = self._answer(scope) if ours else self.app
        await answering(scope, receive, send)

    def _answer(self, scope: Scope) -> Response:
        path = scope["path"]
        if scope["method"] not in ("GET", "HEAD"):
            return Response(status_code=405, headers={**HEADERS, "Allow": "GET, HEAD"})
        if path in REDIRECTED:
            return RedirectResponse(REDIRECTED[path], 307, HEADERS)
        file = self._files.get(path)
        if file is None:
            return Response("no such file in the console", 404, HEADERS, "text/plain")
        return file.build_response(Headers(scope=scope))
