"""Compressed bodies, and the object store of large ones."""

from __future__ import annotations

from typing import Any

import obstore
import zstandard
from obstore.exceptions import BaseError, GenericError, NotFoundError
from obstore.store import from_url

from chassis.errors import DataLoss, shorten
from services.evidence.domain.archive_errors import ObjectStoreUnavailable

LEVEL = 15
FAST_LEVEL = 3
FAST_BYTES = 64 * 1024
"""Bodies up to this size are compressed again soon, with others, and may take more bytes until then."""
MAX_BODY_BYTES = 64 * 1024 * 1024
"""The largest body after decompression: more than a message can hold."""
_TIMEOUT_SECONDS = 20


class BodyCorrupt(DataLoss):
    """A stored body cannot be decompressed."""

    reason = "BODY_CORRUPT"


def compress(body: bytes) -> bytes:
    """Return the body of one trajectory compressed with zstd."""
    level = FAST_LEVEL if len(body) <= FAST_BYTES else LEVEL
    return zstandard.ZstdCompressor(level=level).compress(body)


def compress_pack(bodies: bytes) -> bytes:
    """Return several bodies compressed together with zstd."""
    return zstandard.ZstdCompressor(level=LEVEL).compress(bodies)


def decompress(body: bytes) -> bytes:
    """Return a body as it was before compression. Raises `BodyCorrupt`."""
    try:
        return zstandard.ZstdDecompressor().decompress(body, max_output_size=MAX_BODY_BYTES)
    except zstandard.ZstdError as error:
        raise BodyCorrupt("a stored trajectory is damaged and cannot be decompressed") from error


class BodyMissing(DataLoss):
    """The object store answers, and has no such object."""

    reason = "BODY_MISSING"


class ObjectStore:
    """Implements `BodyStore` by a URL: `s3://bucket/path`, `gs://…`, `az://…` or `file:///folder`.

    Credentials come from the environment, as the store's own tools read them.
    """

    def __init__(self, url: str) -> None:
        """Raise ValueError for a URL that names no object store, or a folder that cannot be created."""
        try:
            self._store = _open(url)
        except (BaseError, ValueError, OSError) as error:
            raise ValueError(shorten(str(error).splitlines()[0])) from error

    async def put(self, object_key: str, body: bytes) -> None:
        """Store an object. Raises `ObjectStoreUnavailable`."""
        try:
            await obstore.put_async(self._store, object_key, body)
        except (BaseError, OSError) as error:
            raise _build_unavailable(error) from error

    async def get(self, object_key: str) -> bytes:
        """Return an object. Raises `ObjectStoreUnavailable`, `BodyMissing`."""
        try:
            result = await obstore.get_async(self._store, object_key)
            return bytes(await result.bytes_async())
        except (NotFoundError, FileNotFoundError) as error:
            raise BodyMissing(f"the object store of the archive has no object '{object_key}'") from error
        except (BaseError, OSError) as error:
            raise _build_unavailable(error) from error

    async def delete(self, object_keys: list[str]) -> None:
        """Delete objects; those that do not exist are deleted, too. Raises `ObjectStoreUnavailable`."""
        for object_key in object_keys:
            try:
                await obstore.delete_async(self._store, object_key)
            except (NotFoundError, FileNotFoundError):
                continue
            except (BaseError, OSError) as error:
                raise _build_unavailable(error) from error


def _open(url: str) -> Any:
    if url.startswith("file://"):
        return from_url(url, mkdir=True)
    # Whoever sets an endpoint chooses its scheme; the default endpoints of the stores have TLS.
    return from_url(
        url, client_options={"timeout": f"{_TIMEOUT_SECONDS}s", "allow_http": True}, retry_config={"max_retries": 2}
    )


def _build_unavailable(error: Exception) -> ObjectStoreUnavailable:
    """Return the error for callers; the text of the store stays in the cause, it may hold addresses."""
    return ObjectStoreUnavailable("no answer" if type(error) is GenericError else type(error).__name__)
