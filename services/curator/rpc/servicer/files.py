"""Import and export playbooks as files, in chunks."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Any

from chassis.errors import InvalidArgument, Violation
from hansei.playbook.v1 import playbook_service_pb2 as service_pb
from libs.storage.idempotency import IdempotencyKey, find_scope
from services.curator.domain import formats
from services.curator.domain.errors import DatasetDeleted
from services.curator.domain.formats import PlaybookFormat
from services.curator.domain.log import RevisionKind
from services.curator.domain.playbook import Playbook
from services.curator.rpc.servicer.message_size import MessageSize
from services.curator.rpc.servicer.mutation import build_origin, mutate
from services.curator.usecases.embed_new_texts import EmbedTexts, NewEmbeddings
from services.curator.usecases.ports import DatasetTransaction, PlaybookStore
from services.curator.usecases.transfer import MAX_FILE_BYTES, import_playbook, split_chunks, split_import

_FORMATS: dict[service_pb.PlaybookFormat.ValueType, PlaybookFormat] = {
    service_pb.PLAYBOOK_FORMAT_JSON: PlaybookFormat.JSON,
    service_pb.PLAYBOOK_FORMAT_TEXT_COUNTED: PlaybookFormat.COUNTED,
    service_pb.PLAYBOOK_FORMAT_TEXT_PLAIN: PlaybookFormat.PLAIN,
}
_FORMAT_NUMBERS = {form: number for number, form in _FORMATS.items()}


class PlaybookFiles:
    """The methods of PlaybookService for files."""

    def __init__(self, store: PlaybookStore, embed_new_texts: EmbedTexts, size: MessageSize) -> None:
        self._store = store
        self._size = size
        self._embed_new_texts = embed_new_texts

    async def ImportPlaybook(
        self, request_iterator: AsyncIterator[service_pb.ImportPlaybookRequest], context: Any
    ) -> bytes:
        """Import a file in commits of limited size; a file with an error changes nothing."""
        head, content = await _receive_file(request_iterator)
        digest = hashlib.sha256(IdempotencyKey.for_message(head).digest)
        digest.update(content)
        format_, playbook = await asyncio.to_thread(_parse_file, content, head.format)
        origin = build_origin(RevisionKind.IMPORT, head)

        key = IdempotencyKey(head.request_id, "ImportPlaybook", digest.digest(), find_scope(head.dataset))
        stored = await self._store.find_response(key)
        if stored is not None:
            return stored
        head_before = await self._store.load_head(head.dataset)
        parts = split_import(playbook, is_whole=head.replace and head_before.dataset.bullets > 0)
        done = service_pb.ImportPlaybookResponse(format=_FORMAT_NUMBERS[format_])

        def commit_part(
            part: Playbook, embeddings: NewEmbeddings, is_first: bool, transaction: DatasetTransaction
        ) -> service_pb.ImportPlaybookResponse:
            if transaction.deleted_revision != head_before.dataset.deleted_revision:
                raise DatasetDeleted(f'dataset "{head.dataset}" was deleted during the import; import it again')
            transaction.store_embeddings(embeddings)
            result = import_playbook(transaction, part, origin, replace=head.replace and is_first)
            response = service_pb.ImportPlaybookResponse(revision=result.revision, format=done.format)
            for count in ("added", "updated", "removed"):
                setattr(response, count, getattr(done, count) + getattr(result, count))
            return response

        for number, part in enumerate(parts):
            texts = (bullet.searchable_text for bullet in part.bullets if not bullet.retired)
            work = partial(commit_part, part, await self._embed_new_texts(texts), number == 0)
            if number == len(parts) - 1:
                return await mutate(self._store, head.dataset, key, self._size, work)
            part_key = replace(key, method=f"ImportPlaybook/{number}", scope=f"{key.scope}part-{number}/")
            encoded = await mutate(self._store, head.dataset, part_key, self._size, work)
            done = service_pb.ImportPlaybookResponse.FromString(encoded)
        raise AssertionError("an import has at least one part")

    async def ExportPlaybook(
        self, request: service_pb.ExportPlaybookRequest, context: Any
    ) -> AsyncIterator[service_pb.ExportPlaybookResponse]:
        """Yield the chunks of the file of a playbook."""
        await self._store.require(request.dataset)
        snapshot = await self._store.load(request.dataset, request.revision or None)
        text = await asyncio.to_thread(
            formats.encode_playbook, snapshot.playbook, _FORMATS.get(request.format, PlaybookFormat.JSON)
        )
        for chunk in split_chunks(text, self._size.max_page):
            yield service_pb.ExportPlaybookResponse(chunk=chunk)


async def _receive_file(
    requests: AsyncIterator[service_pb.ImportPlaybookRequest],
) -> tuple[service_pb.ImportHead, bytearray]:
    head: service_pb.ImportHead | None = None
    content = bytearray()
    async for request in requests:
        if request.WhichOneof("part") == "head":
            if head is not None:
                raise _build_invalid_file("head", "must be sent once, as the first message")
            head = request.head
        elif head is None:
            raise _build_invalid_file("head", "must be the first message")
        else:
            content += request.chunk
            if len(content) > MAX_FILE_BYTES:
                raise _build_invalid_file("chunk", f"the file is larger than {MAX_FILE_BYTES} bytes")
    if head is None:
        raise _build_invalid_file("head", "must be the first message")
    return head, content


def _parse_file(
    content: bytes | bytearray, format_: service_pb.PlaybookFormat.ValueType
) -> tuple[PlaybookFormat, Playbook]:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _build_invalid_file("chunk", f"the file is not UTF-8: byte {error.start}") from error
    if not text.strip():
        # An export that failed leaves an empty file, which must not replace a playbook.
        raise _build_invalid_file("chunk", 'the file is empty; a playbook without bullets is {"bullets": []}')
    if text.count("\r\n") == text.count("\n"):
        text = text.replace("\r\n", "\n")  # an editor of Windows stored it
    form = _FORMATS.get(format_) or formats.detect_format(text)
    return form, formats.parse_playbook(text, form)


def _build_invalid_file(field: str, problem: str) -> InvalidArgument:
    return InvalidArgument(f"{field}: {problem}", reason="UNREADABLE_PLAYBOOK", violations=[Violation(field, problem)])
