"""PlaybookService: playbooks as files, in chunks."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Any

from chassis.errors import InvalidArgument, Violation
from hansei.playbook.v1 import playbook_service_pb2 as service_pb
from libs.storage.idempotency import IdempotencyKey
from services.curator.domain import forms
from services.curator.domain.forms import Form
from services.curator.domain.log import Kind
from services.curator.domain.playbook import Playbook
from services.curator.rpc.servicer.mutation import mutate, origin_of
from services.curator.usecases.embed_new_texts import EmbedTexts
from services.curator.usecases.ports import DatasetTransaction, PlaybookStore
from services.curator.usecases.transfer import MAX_FILE_BYTES, chunks, import_playbook

_FORMS: dict[int, Form] = {
    service_pb.PLAYBOOK_FORMAT_JSON: Form.JSON,
    service_pb.PLAYBOOK_FORMAT_TEXT_COUNTED: Form.COUNTED,
    service_pb.PLAYBOOK_FORMAT_TEXT_PLAIN: Form.PLAIN,
}
_FORMATS = {
    Form.JSON: service_pb.PLAYBOOK_FORMAT_JSON,
    Form.COUNTED: service_pb.PLAYBOOK_FORMAT_TEXT_COUNTED,
    Form.PLAIN: service_pb.PLAYBOOK_FORMAT_TEXT_PLAIN,
}


class PlaybookFiles:
    """Import and export."""

    def __init__(self, store: PlaybookStore, embed_new_texts: EmbedTexts) -> None:
        self._store = store
        self._embed_new_texts = embed_new_texts

    async def ImportPlaybook(
        self, request_iterator: AsyncIterator[service_pb.ImportPlaybookRequest], context: Any
    ) -> bytes:
        """Reads the file, then writes it as one revision; a file with an error writes nothing."""
        head, content = await _received(request_iterator)
        digest = hashlib.sha256(IdempotencyKey.for_message(head).digest)
        digest.update(content)
        form, playbook = await asyncio.to_thread(_parsed, content, head.format)
        origin = origin_of(Kind.IMPORT, head)

        def work(transaction: DatasetTransaction) -> service_pb.ImportPlaybookResponse:
            transaction.store_embeddings(embeddings)
            done = import_playbook(transaction, playbook, origin, replace=head.replace)
            return service_pb.ImportPlaybookResponse(
                revision=done.revision,
                added=done.added,
                updated=done.updated,
                removed=done.removed,
                format=_FORMATS[form],
            )

        texts = (one.searchable_text for one in playbook.bullets if not one.retired)
        embeddings = await self._embed_new_texts(texts)
        key = IdempotencyKey(head.request_id, "ImportPlaybook", digest.digest())
        return await mutate(self._store, head.dataset, key, work)

    async def ExportPlaybook(
        self, request: service_pb.ExportPlaybookRequest, context: Any
    ) -> AsyncIterator[service_pb.ExportPlaybookResponse]:
        """The file of a playbook."""
        snapshot = await self._store.load(request.dataset, request.revision or None)
        text = await asyncio.to_thread(forms.write, snapshot.playbook, _FORMS.get(request.format, Form.JSON))
        for chunk in chunks(text):
            yield service_pb.ExportPlaybookResponse(chunk=chunk)


async def _received(
    requests: AsyncIterator[service_pb.ImportPlaybookRequest],
) -> tuple[service_pb.ImportHead, bytearray]:
    head: service_pb.ImportHead | None = None
    content = bytearray()
    async for request in requests:
        if request.WhichOneof("part") == "head":
            if head is not None:
                raise _refused("head", "must be sent once, as the first message")
            head = request.head
        elif head is None:
            raise _refused("head", "must be the first message")
        else:
            content += request.chunk
            if len(content) > MAX_FILE_BYTES:
                raise _refused("chunk", f"the file is larger than {MAX_FILE_BYTES} bytes")
    if head is None:
        raise _refused("head", "must be the first message")
    return head, content


def _parsed(content: bytes | bytearray, format_: int) -> tuple[Form, Playbook]:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refused("chunk", f"the file is not UTF-8: byte {error.start}") from error
    form = _FORMS.get(format_) or forms.form_of(text)
    return form, forms.read(text, form)


def _refused(field: str, problem: str) -> InvalidArgument:
    return InvalidArgument(f"{field} {problem}", reason="UNREADABLE_PLAYBOOK", violations=[Violation(field, problem)])
