"""The files of the page, and the headers under which a browser may use them."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX = "/console/"
AWAY = ("/", "/console")
"""Where people come in who have not typed the whole address."""

PAGE = Path(__file__).parent / "page"
INDEX = "index.html"
ASSETS = "assets/"
"""How the index refers to the other files; served, it is a name that changes with them, so that they may be kept."""

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
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
"""Nothing inline, nothing from elsewhere, and no text becomes markup or script (Trusted Types without a policy)."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True, slots=True)
class File:
    """A file as it is sent; `packed` is the same with gzip."""

    body: bytes
    packed: bytes
    media_type: str
    kept: bool

    def response(self, headers: Headers) -> Response:
        """What a browser with these request headers gets."""
        packed = "gzip" in headers.get("accept-encoding", "")
        own = {
            "Cache-Control": "public, max-age=31536000, immutable" if self.kept else "no-cache",
            "Vary": "Accept-Encoding",
            **({"Content-Encoding": "gzip"} if packed else {}),
        }
        return Response(self.packed if packed else self.body, headers={**HEADERS, **own}, media_type=self.media_type)


@cache
def load(page: Path = PAGE) -> Mapping[str, File]:
    """Path to file, for everything under the folder of the page; read and packed once a process."""
    paths = sorted(each for each in page.rglob("*") if each.is_file())
    bodies = {each.relative_to(page).as_posix(): each.read_bytes() for each in paths}
    index = bodies.pop(INDEX).decode()
    digest = hashlib.sha256(b"".join(name.encode() + body for name, body in bodies.items())).hexdigest()[:16]
    files = {f"{PREFIX}{digest}/{name}": _file(name, body, kept=True) for name, body in bodies.items()}
    files[PREFIX] = _file(INDEX, _index(index, digest, bodies), kept=False)
    return files


def _index(text: str, digest: str, names: Iterable[str]) -> bytes:
    """The index under whose names the files are served; all modules are asked for at once, not one behind another."""
    modules = [f'<link rel="modulepreload" href="{ASSETS}{name}" />' for name in names if name.endswith(".js")]
    return text.replace("</head>", "\n".join([*modules, "</head>"])).replace(f'"{ASSETS}', f'"{digest}/').encode()


def _file(name: str, body: bytes, *, kept: bool) -> File:
    return File(body, gzip.compress(body, mtime=0), MEDIA_TYPES[Path(name).suffix], kept)


class Console:
    """ASGI middleware. Answers under `/console/`, leads `/` there, and hands everything else on.

    The files hold nothing but the page, so everybody gets them: who may see what is decided where the page asks.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._files = load()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand the request on."""
        ours = scope["type"] == "http" and (scope["path"] in AWAY or scope["path"].startswith(PREFIX))
        answering = self._answer(scope) if ours else self.app
        await answering(scope, receive, send)

    def _answer(self, scope: Scope) -> Response:
        path = scope["path"]
        if scope["method"] not in ("GET", "HEAD"):
            return Response(status_code=405, headers={**HEADERS, "Allow": "GET, HEAD"})
        if path in AWAY:
            return RedirectResponse(PREFIX, 307, HEADERS)
        file = self._files.get(path)
        if file is None:
            return Response("There is no such file in the console.", 404, HEADERS, "text/plain")
        return file.response(Headers(scope=scope))
