"""The blocking and the async client. Both have every service, and short methods to learn, search and ask."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Self, TypedDict, Unpack

from chassis.channels import Peers
from chassis.policy import Policies, installed_policies
from hansei.client.calls import AsyncMode, BlockingMode
from hansei.client.channels import BlockingChannel
from hansei.client.services import AllServices
from hansei.client.tls import TlsChoice, channel_credentials
from hansei.gateway.v1.gateway_service_pb2 import AnswerResponse, LearnResponse
from hansei.playbook.v1.playbook_service_pb2 import (
    PLAYBOOK_FORMAT_UNSPECIFIED,
    ImportHead,
    ImportPlaybookRequest,
    ImportPlaybookResponse,
    PlaybookFormat,
)
from hansei.reflector.v1.trajectory_pb2 import Trajectory
from hansei.search.v1.search_pb2 import SearchQuery
from hansei.search.v1.search_service_pb2 import SearchResponse

DEFAULT_ADDRESS = "127.0.0.1:50050"
ADDRESS_VARIABLE = "HANSEI_ADDR"
CHUNK_BYTES = 1024 * 1024


class LearnOptions(TypedDict, total=False):
    """The options of `learn`."""

    ground_truth: str
    """The correct answer."""
    test_report: str
    """The report of a test of the trajectory's result."""
    siblings: Sequence[Trajectory]
    """Other trajectories of the same task."""
    max_iterations: int | None
    """The number of reflection iterations; None: 1."""
    request_id: str
    """The idempotency key: a repeated one returns the stored response and changes nothing."""


class SearchOptions(TypedDict, total=False):
    """The options of `search`."""

    top_k: int | None
    """The number of bullets; None: 10."""
    min_confidence: float | None
    """The least confidence of a bullet, 0 to 1; None: only bullets with mostly bad votes are left out."""
    alpha: float | None
    """The weight of the vector score, 0 to 1."""
    explain: bool
    """Return the terms that matched."""


class ImportOptions(TypedDict, total=False):
    """The options of `import_playbook`."""

    format: PlaybookFormat.ValueType
    """The format of the file; unless set, the server derives it from the content."""
    replace: bool
    """Remove the bullets that are not in the file."""
    author: str
    reason: str
    request_id: str
    """The idempotency key: a repeated one returns the stored response and changes nothing."""


def address_or_default(address: str | None) -> str:
    """Return `address`, else HANSEI_ADDR, else 127.0.0.1:50050."""
    return address or os.environ.get(ADDRESS_VARIABLE) or DEFAULT_ADDRESS


def _peer_name(address: str) -> str:
    """Return the name of the server in error messages."""
    return f"hansei at {address}"


def import_requests(dataset: str, content: bytes, options: ImportOptions) -> Iterator[ImportPlaybookRequest]:
    """Yield the requests of an import: the head, then the file in chunks."""
    yield ImportPlaybookRequest(head=ImportHead(dataset=dataset, **options))
    for start in range(0, len(content), CHUNK_BYTES):
        yield ImportPlaybookRequest(chunk=content[start : start + CHUNK_BYTES])


def _authorization(token: str | None) -> str:
    """Return the value of the `authorization` header; empty without a token."""
    bearer = os.environ.get("HANSEI_TOKEN", "") if token is None else token
    return f"Bearer {bearer}" if bearer else ""


class Client(AllServices[BlockingMode]):
    """A client whose calls block. It is safe to use from many threads; close it, or use it in a `with` block."""

    def __init__(
        self,
        address: str | None = None,
        *,
        token: str | None = None,
        tls: TlsChoice = None,
        policies: Policies | None = None,
    ) -> None:
        """Set up the client; it connects at the first call.

        `address` is the gateway's `host:port` (default: see `address_or_default`). `token` is an API key or a token of
        the gateway's issuer (default: HANSEI_TOKEN). `tls` names the TLS files, or is False for plaintext (default:
        HANSEI_TLS_*).
        """
        address = address_or_default(address)
        policies = installed_policies() if policies is None else policies
        credentials = channel_credentials(tls)
        channel = BlockingChannel(_peer_name(address), address, policies, _authorization(token), credentials)
        super().__init__(address, channel)

    @classmethod
    @contextmanager
    def local(cls, **variables: str) -> Iterator[Self]:
        """Run every service in this process for the length of the block; see `hansei.client.local`."""
        from hansei.client.local import run_stack_in_background

        with run_stack_in_background(variables) as address, cls(address, tls=False) as client:
            yield client

    def learn(self, trajectory: Trajectory, **options: Unpack[LearnOptions]) -> LearnResponse:
        """Reflect on a trajectory and curate the lessons into the trajectory's dataset."""
        return self.gateway.learn(trajectory=trajectory, dataset=trajectory.dataset, **options)

    def search(
        self,
        dataset: str,
        text: str,
        *,
        sections: Sequence[str] = (),
        min_revision: int = 0,
        **options: Unpack[SearchOptions],
    ) -> SearchResponse:
        """Return the bullets of a dataset that match a text, best first.

        `sections`: only bullets of these. `min_revision`: wait until the index holds this revision, as `learn` returned
        it.
        """
        query = SearchQuery(query_text=text, section_filter=sections, **options)
        return self.index.search(dataset=dataset, query=query, min_revision=min_revision)

    def ask(self, dataset: str, query: str, *, min_revision: int = 0, instruction: str = "") -> AnswerResponse:
        """Answer a query from the bullets of a dataset; the response has the served and the cited bullets."""
        return self.gateway.answer(dataset=dataset, query=query, min_revision=min_revision, instruction=instruction)

    def import_playbook(self, dataset: str, content: bytes, **options: Unpack[ImportOptions]) -> ImportPlaybookResponse:
        """Import a playbook file."""
        return self.playbooks.import_chunks(import_requests(dataset, content, options))

    def export_playbook(
        self, dataset: str, *, format: PlaybookFormat.ValueType = PLAYBOOK_FORMAT_UNSPECIFIED, revision: int = 0
    ) -> bytes:
        """Return a playbook as the content of a file: JSON unless `format` is set, the newest unless `revision` is."""
        parts = self.playbooks.export_chunks(dataset=dataset, format=format, revision=revision)
        return b"".join([part.chunk for part in parts])

    def close(self) -> None:
        """Close the connection; calls in progress are cancelled."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class AsyncClient(AllServices[AsyncMode]):
    """A client whose calls are awaited. Make it in a running loop; close it, or use it in an `async with` block."""

    def __init__(
        self,
        address: str | None = None,
        *,
        token: str | None = None,
        tls: TlsChoice = None,
        policies: Policies | None = None,
    ) -> None:
        """Set up the client; the arguments are those of `Client`."""
        address = address_or_default(address)
        name = _peer_name(address)
        self._peers = Peers(
            {name: address}, policies=policies, credential=_authorization(token), tls=channel_credentials(tls)
        )
        super().__init__(address, self._peers.channel(name))

    @classmethod
    @asynccontextmanager
    async def local(cls, **variables: str) -> AsyncIterator[Self]:
        """Run every service in this loop for the length of the block; see `hansei.client.local`."""
        from hansei.client.local import run_stack_in_loop

        async with run_stack_in_loop(variables) as address, cls(address, tls=False) as client:
            yield client

    async def learn(self, trajectory: Trajectory, **options: Unpack[LearnOptions]) -> LearnResponse:
        """Reflect on a trajectory and curate the lessons into the trajectory's dataset."""
        return await self.gateway.learn(trajectory=trajectory, dataset=trajectory.dataset, **options)

    async def search(
        self,
        dataset: str,
        text: str,
        *,
        sections: Sequence[str] = (),
        min_revision: int = 0,
        **options: Unpack[SearchOptions],
    ) -> SearchResponse:
        """Return the bullets of a dataset that match a text, best first; the arguments are those of `Client.search`."""
        query = SearchQuery(query_text=text, section_filter=sections, **options)
        return await self.index.search(dataset=dataset, query=query, min_revision=min_revision)

    async def ask(self, dataset: str, query: str, *, min_revision: int = 0, instruction: str = "") -> AnswerResponse:
        """Answer a query from the bullets of a dataset; the response has the served and the cited bullets."""
        return await self.gateway.answer(
            dataset=dataset, query=query, min_revision=min_revision, instruction=instruction
        )

    async def import_playbook(
        self, dataset: str, content: bytes, **options: Unpack[ImportOptions]
    ) -> ImportPlaybookResponse:
        """Import a playbook file."""
        return await self.playbooks.import_chunks(import_requests(dataset, content, options))

    async def export_playbook(
        self, dataset: str, *, format: PlaybookFormat.ValueType = PLAYBOOK_FORMAT_UNSPECIFIED, revision: int = 0
    ) -> bytes:
        """Return a playbook as the content of a file: JSON unless `format` is set, the newest unless `revision` is."""
        parts = self.playbooks.export_chunks(dataset=dataset, format=format, revision=revision)
        return b"".join([part.chunk async for part in parts])

    async def close(self) -> None:
        """Close the connection; calls in progress are cancelled."""
        await self._peers.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
