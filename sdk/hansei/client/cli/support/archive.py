"""Write the parts of a support bundle to a gzipped tar file with a manifest."""

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

from hansei.client.masking import SecretMask

FOLDER = "hansei-support"
MANIFEST = "manifest.json"
OWNER_ONLY = 0o600


@dataclass(frozen=True, slots=True)
class BundlePart:
    """A file of the bundle; `content` is a text, or a document for JSON."""

    file: str
    description: str
    content: Any


@dataclass(frozen=True, slots=True)
class OmittedPart:
    """A part that the bundle lacks, with the reason."""

    description: str
    reason: str


def write_archive(file: Path, parts: Sequence[BundlePart | OmittedPart], mask: SecretMask) -> dict[str, Any]:
    """Write the bundle, readable only by its owner, and return the manifest. Everything passes `mask` here.

    Raises:
        FileExistsError: the file exists.
    """
    included = [part for part in parts if isinstance(part, BundlePart)]
    omitted = [part for part in parts if isinstance(part, OmittedPart)]
    contents = {part.file: _encode(mask(part.content)) for part in included}
    manifest = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "files": [
            {
                "file": part.file,
                "what": part.description,
                "bytes": len(contents[part.file]),
                "sha256": hashlib.sha256(contents[part.file]).hexdigest(),
            }
            for part in included
        ],
        "left_out": mask([{"what": part.description, "reason": part.reason} for part in omitted]),
    }
    archive = _pack([(MANIFEST, _encode(manifest)), *contents.items()])
    descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OWNER_ONLY)
    with open(descriptor, "wb") as target:
        target.write(archive)
    return manifest


def _encode(content: Any) -> bytes:
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=2) + "\n"
    # Text of files and servers may have surrogates.
    return text.encode("utf-8", "replace")


def _pack(files: Iterable[tuple[str, bytes]]) -> bytes:
    target = io.BytesIO()
    # The empty name keeps file names and owners of this machine out of the headers.
    with gzip.GzipFile("", "wb", fileobj=target) as stream, tarfile.open(mode="w", fileobj=stream) as archive:
        for name, content in files:
            entry = tarfile.TarInfo(f"{FOLDER}/{name}")
            entry.size, entry.mode = len(content), OWNER_ONLY
            archive.addfile(entry, io.BytesIO(content))
    return target.getvalue()
