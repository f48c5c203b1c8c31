"""A file of named arrays that is read completely or not at all.

Layout: 8 bytes magic, 32 bytes SHA-256 of the rest, 8 bytes length of a JSON manifest, the manifest, then the arrays,
each at a multiple of 64 bytes. The file is written under another name and renamed, so a reader sees the old file or
the new one. Arrays are read by memory mapping.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAGIC = b"HANSEI01"
_ALIGNMENT = 64
_DIGEST_AT, _LENGTH_AT, _MANIFEST_AT = 8, 40, 48

Arrays = Mapping[str, NDArray[Any]]


class DamagedFileError(Exception):
    """The file is incomplete, changed, or of another kind."""


def write_arrays(path: Path, header: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a header and arrays, durably and atomically. Raises `OSError`; then nothing has changed."""
    flat = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with temporary.open("wb") as file:
            _write(file, _encode_manifest(header, flat), list(flat.values()))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def read_arrays(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays, memory-mapped and read-only.

    Raises `DamagedFileError` and `OSError`.
    """
    if path.stat().st_size <= _MANIFEST_AT:
        raise DamagedFileError("incomplete file")
    content = np.memmap(path, np.uint8, "r")
    if content[:_DIGEST_AT].tobytes() != MAGIC:
        raise DamagedFileError("not an array file")
    if hashlib.sha256(content.data[_LENGTH_AT:]).digest() != content[_DIGEST_AT:_LENGTH_AT].tobytes():
        raise DamagedFileError("wrong checksum")
    length = int.from_bytes(content[_LENGTH_AT:_MANIFEST_AT].tobytes(), "little")
    manifest = json.loads(content[_MANIFEST_AT : _MANIFEST_AT + length].tobytes())
    start = _align(_MANIFEST_AT + length)
    arrays = {
        name: content[start + offset : start + offset + size].view(dtype).reshape(shape)
        for name, (offset, size, dtype, shape) in manifest["arrays"].items()
    }
    return manifest["header"], arrays


def read_header(path: Path) -> dict[str, Any]:
    """Return the header without a check of the file. Raises `DamagedFileError` and `OSError`."""
    with path.open("rb") as file:
        start = file.read(_MANIFEST_AT)
        manifest = file.read(int.from_bytes(start[_LENGTH_AT:], "little") if start[:_DIGEST_AT] == MAGIC else 0)
    try:
        header: dict[str, Any] = json.loads(manifest)["header"]
    except (ValueError, LookupError, TypeError) as error:
        raise DamagedFileError("missing header") from error
    return header


def pack_bytes(texts: Sequence[bytes], name: str) -> dict[str, NDArray[Any]]:
    """Return byte strings as two arrays, for `unpack_bytes`."""
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    return {f"{name}.bytes": np.frombuffer(b"".join(texts), np.uint8), f"{name}.ends": ends}


def unpack_bytes(arrays: Arrays, name: str) -> list[bytes]:
    """Return the byte strings that `pack_bytes` stored."""
    content = arrays[f"{name}.bytes"].tobytes()
    ends = arrays[f"{name}.ends"].tolist()
    return [content[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _encode_manifest(header: Mapping[str, Any], arrays: Arrays) -> bytes:
    locations: dict[str, tuple[int, int, str, list[int]]] = {}
    offset = 0
    for name, array in arrays.items():
        locations[name] = offset, array.nbytes, array.dtype.str, list(array.shape)
        offset += _align(array.nbytes)
    return json.dumps({"header": header, "arrays": locations}, ensure_ascii=False).encode()


def _write(file: Any, manifest: bytes, arrays: Sequence[NDArray[Any]]) -> None:
    digest = hashlib.sha256()

    def write_part(part: bytes | memoryview) -> None:
        digest.update(part)
        file.write(part)

    file.write(MAGIC + bytes(32))
    write_part(len(manifest).to_bytes(8, "little"))
    write_part(manifest + bytes(_align(_MANIFEST_AT + len(manifest)) - _MANIFEST_AT - len(manifest)))
    for array in arrays:
        write_part(array.reshape(-1).view(np.uint8).data if array.size else b"")
        write_part(bytes(_align(array.nbytes) - array.nbytes))
    file.seek(_DIGEST_AT)
    file.write(digest.digest())


def _align(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
