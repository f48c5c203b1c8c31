"""Parts become a file: a gzipped tar with a manifest that says what is in it, and what is not."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hansei.client.cli.support.masking import Masking

FOLDER = "hansei-support"
MANIFEST = "manifest.json"
ONLY_ITS_OWNER = 0o600


@dataclass(frozen=True, slots=True)
class Part:
    """A file of the bundle: text, or a document that is written as JSON."""

    file: str
    what: str
    content: Any


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What somebody might look for and is not there."""

    what: str
    why: str


def write(file: Path, gathered: Sequence[Part | LeftOut], masking: Masking) -> dict[str, Any]:
    """Write the bundle, whole or not at all, readable by its owner. Gives the manifest; FileExistsError if it is there.

    Everything passes `masking` here, on its only way into the file.
    """
    contents = {each.file: _bytes(masking(each.content)) for each in gathered if isinstance(each, Part)}
    manifest = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "files": [
            {
                "file": each.file,
                "what": each.what,
                "bytes": len(contents[each.file]),
                "sha256": hashlib.sha256(contents[each.file]).hexdigest(),
            }
            for each in gathered
            if isinstance(each, Part)
        ],
        "left_out": masking([{"what": each.what, "why": each.why} for each in gathered if isinstance(each, LeftOut)]),
    }
    packed = _packed([(MANIFEST, _bytes(manifest)), *contents.items()])
    descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, ONLY_ITS_OWNER)
    with open(descriptor, "wb") as target:
        target.write(packed)
    return manifest


def _bytes(content: Any) -> bytes:
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=2) + "\n"
    # What came from files and servers may hold halves of characters.
    return text.encode("utf-8", "replace")


def _packed(files: Iterable[tuple[str, bytes]]) -> bytes:
    target = io.BytesIO()
    # No file name or owner of this machine in the headers.
    with gzip.GzipFile("", "wb", fileobj=target) as stream, tarfile.open(mode="w", fileobj=stream) as packed:
        for name, content in files:
            entry = tarfile.TarInfo(f"{FOLDER}/{name}")
            entry.size, entry.mode = len(content), ONLY_ITS_OWNER
            packed.addfile(entry, io.BytesIO(content))
    return target.getvalue()
