"""The playbooks of the curator over gRPC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hansei.playbook.v1 import playbook_service_pb2, playbook_service_pb2_grpc

PAGE_SIZE = 1000


class GrpcPlaybooks:
    """Implements `DatasetDeletions`. `channel` is connected to the curator."""

    def __init__(self, channel: Any) -> None:
        self._playbooks = playbook_service_pb2_grpc.PlaybookServiceStub(channel)

    async def list_deletions(self) -> dict[str, datetime]:
        """Return when datasets were last deleted, by name. Raises `HanseiError`."""
        deletions: dict[str, datetime] = {}
        request = playbook_service_pb2.ListDatasetsRequest(page_size=PAGE_SIZE, deleted=True)
        while True:
            page = await self._playbooks.ListDatasets(request)
            deletions |= {dataset.name: dataset.deleted_at.ToDatetime(tzinfo=UTC) for dataset in page.datasets}
            if not page.next_page_token:
                return deletions
            request.page_token = page.next_page_token
