"""The files of the page, and the headers under which a browser may use them."""

from __future__ import annotations

import gzip
import hashlib
import json
import posixpath
import re
from collections.abc import Mapping
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
FRAME = "js/main.js"
"""The module that the index starts."""
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


_IMPORT = re.compile(r'^(?:import|export|\}) .*from "(\.[^"]+)";$', re.MULTILINE)
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
    digest = hashlib.sha256(b"".join(name.encode() + body for name, body in bodies.items())).hexdigest()[:16]
    files = {f"{PREFIX}{digest}/{name}": _read_file(name, body, is_immutable=True) for name, body in bodies.items()}
    files[PREFIX] = _read_file(INDEX, _render_index(index, digest, bodies), is_immutable=False)
    return files


def _render_index(text: str, digest: str, bodies: Mapping[str, bytes]) -> bytes:
    """Return the index with the served names of all files; browsers load the modules of the frame in parallel."""
    modules = [f'<link rel="modulepreload" href="{ASSETS}{name}" />' for name in _find_imports(FRAME, bodies)]
    return text.replace("</head>", "\n".join([*modules, "</head>"])).replace(f'"{ASSETS}', f'"{digest}/').encode()


def _join_styles(index: str, bodies: dict[str, bytes]) -> str:
    """Replace the style sheets of the index by one, which is added to the bodies; return the index."""
    bodies[STYLES] = b"\n".join(bodies.pop(name) for name in _STYLE.findall(index))
    link = f'<link rel="stylesheet" href="{ASSETS}{STYLES}" />'
    return _STYLE.sub("", index).replace("</head>", f"{link}\n</head>")


def _find_imports(module: str, bodies: Mapping[str, bytes]) -> list[str]:
    """Return a module and all that it imports when it starts; a page is imported later, when it is opened."""
    found = [module]
    for name in found:
        targets = _IMPORT.findall(bodies[name].decode())
        imports = (posixpath.normpath(posixpath.join(posixpath.dirname(name), target)) for target in targets)
        found += [target for target in dict.fromkeys(imports) if target not in found]
    return found


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
