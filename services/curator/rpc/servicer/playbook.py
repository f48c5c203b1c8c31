"""hansei.playbook.v1.PlaybookService."""

from __future__ import annotations

from hansei.playbook.v1 import playbook_service_pb2_grpc as playbook_grpc
from libs.embedding.embedder import TextEmbedder
from services.curator.rpc.servicer.edits import PlaybookEdits
from services.curator.rpc.servicer.feed import PlaybookFeed
from services.curator.rpc.servicer.files import PlaybookFiles
from services.curator.rpc.servicer.message_size import MessageSize
from services.curator.rpc.servicer.reads import PlaybookReads
from services.curator.usecases.embed_new_texts import EmbedTexts
from services.curator.usecases.ports import PlaybookStore, SectionSource
from services.curator.usecases.watch import Watch


class PlaybookServicer(  # type: ignore[misc]  # mutations return the encoded response, which the edge sends as it is
    PlaybookReads, PlaybookEdits, PlaybookFiles, PlaybookFeed, playbook_grpc.PlaybookServiceServicer
):
    """hansei.playbook.v1.PlaybookService."""

    def __init__(
        self,
        store: PlaybookStore,
        sections: SectionSource,
        watch: Watch,
        embedder: TextEmbedder,
        embed_new_texts: EmbedTexts,
        size: MessageSize,
    ) -> None:
        PlaybookReads.__init__(self, store, sections, size)
        PlaybookEdits.__init__(self, store, embed_new_texts, size)
        PlaybookFiles.__init__(self, store, embed_new_texts, size)
        PlaybookFeed.__init__(self, watch, embedder, size)
