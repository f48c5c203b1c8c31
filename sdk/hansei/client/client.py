"""The blocking and the async client. Both have every service, and short methods to learn, search and ask."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack, overload

from chassis.channel_options import SCHEMES
from chassis.errors import BadSetting, shorten
from hansei.client.calls import AsyncMode, BlockingMode, build_message
from hansei.client.channels import BlockingChannel
from hansei.client.edits import (
    DEFAULT_SECTION,
    EditOptions,
    accept,
    build_addition,
    build_removal,
    build_replacement,
    is_bullet_missing,
)
from hansei.client.errors import PermissionDenied, Unavailable
from hansei.client.services import AllServices
from hansei.client.serving import AsyncServing, SearchFallback, Serving
from hansei.client.tls import TlsChoice, build_credentials
from hansei.playbook.v1.playbook_pb2 import Delta
from hansei.playbook.v1.playbook_service_pb2 import (
    PLAYBOOK_FORMAT_UNSPECIFIED,
    ApplyDeltasResponse,
    ImportHead,
    ImportPlaybookRequest,
    ImportPlaybookResponse,
    PlaybookFormat,
)

# A process uses few methods of a client, so the modules that only some of them need are imported there.
if TYPE_CHECKING:
    from hansei.client.conversations import ConversationOptions, Messages
    from hansei.client.guards import AsyncSessionGuard, SessionGuard
    from hansei.evidence.v1.evidence_service_pb2 import RecallResponse
    from hansei.gateway.v1.gateway_service_pb2 import AnswerResponse, LearnResponse
    from hansei.reflector.v1.trajectory_pb2 import Trajectory
    from hansei.search.v1.search_service_pb2 import SearchResponse

DEFAULT_ADDRESS = "127.0.0.1:50050"
ADDRESS_VARIABLE = "HANSEI_ADDR"
NEW_DATASET = "default"
"""The dataset of lessons for which no dataset is named."""
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
    """The number of bullets; None: 10, or with `budget_tokens` as many as fit."""
    min_confidence: float | None
    """The least confidence of a bullet, 0 to 1; None: only bullets with mostly harmful votes are left out."""
    alpha: float | None
    """The weight of the vector score, 0 to 1."""
    explain: bool
    """Return the terms that matched."""
    budget_tokens: int | None
    """The tokens that the bullets may take; 0: `HANSEI_PLAYBOOK_BUDGET_TOKENS` of the service, None: no limit."""


class RecallOptions(TypedDict, total=False):
    """The options of `recall` and `serve`."""

    top_k: int | None
    """The number of bullets; None: as many as fit `HANSEI_PLAYBOOK_BUDGET_TOKENS` of the search service."""
    min_revision: int
    """Wait until the index holds this revision, as `learn` returned it."""
    allow_missing: bool
    """True: a dataset that does not exist has no bullets; otherwise it raises `NotFound`."""


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


def choose_address(address: str | None) -> str:
    """Return `address`, else HANSEI_ADDR, else 127.0.0.1:50050.

    Raises:
        BadSetting: gRPC cannot connect to it: it is a URL, or has no port.
    """
    chosen = address or os.environ.get(ADDRESS_VARIABLE) or DEFAULT_ADDRESS
    if not chosen.startswith(SCHEMES) and not re.fullmatch(r"[^/\s]+:[0-9]{1,5}", chosen):
        name = ADDRESS_VARIABLE if chosen == os.environ.get(ADDRESS_VARIABLE) else "address"
        raise BadSetting(f"{name} must be host:port, such as {DEFAULT_ADDRESS} (got {shorten(chosen)!r})")
    return chosen


def _get_peer_name(address: str) -> str:
    """Return the name of the server in error messages."""
    return f"hansei at {address}"


def iterate_import_requests(dataset: str, content: bytes, options: ImportOptions) -> Iterator[ImportPlaybookRequest]:
    """Yield the requests of an import: the head, then the file in chunks."""
    yield ImportPlaybookRequest(head=build_message(ImportHead, dataset=dataset, **options))
    for start in range(0, len(content), CHUNK_BYTES):
        yield build_message(ImportPlaybookRequest, chunk=content[start : start + CHUNK_BYTES])


def _format_authorization(token: str | None) -> str:
    """Return the value of the `authorization` header; empty without a token."""
    bearer = os.environ.get("HANSEI_TOKEN", "") if token is None else token
    return f"Bearer {bearer}" if bearer else ""


def _check_learn_arguments(
    trajectory: object, messages: Messages | None, succeeded: bool | None, dataset: str | None
) -> None:
    """Check that `learn` got either a trajectory or a conversation. Raises TypeError, ValueError."""
    from hansei.reflector.v1.trajectory_pb2 import Trajectory

    if trajectory is not None:
        if not isinstance(trajectory, Trajectory):
            kind = type(trajectory).__name__
            raise TypeError(f"trajectory is a {kind}; it must be a Trajectory (pass a conversation as messages=[…])")
        conversation = {"messages": messages, "succeeded": succeeded, "dataset": dataset}
        if extra := [name for name, value in conversation.items() if value is not None]:
            raise ValueError(f"{', '.join(extra)} cannot be set beside a trajectory, which has its own")
    elif messages is None:
        raise TypeError("learn needs a trajectory, or messages=[…] and succeeded=True or False")
    elif not messages:
        raise ValueError("messages is empty; a conversation has at least one message")
    elif succeeded is None:
        raise TypeError("messages need succeeded=True or False: the outcome of the conversation")
    else:
        check_outcome(succeeded)


def check_outcome(succeeded: object) -> None:
    """Raise TypeError unless an outcome is a bool: every text is true, also "no"."""
    if not isinstance(succeeded, bool):
        raise TypeError(f"succeeded must be True or False (got {shorten(succeeded)!r})")


class Client(AllServices[BlockingMode]):
    """A client whose calls block. It is safe to use from many threads; close it, or use it in a `with` block."""

    def __init__(self, address: str | None = None, *, token: str | None = None, tls: TlsChoice = None) -> None:
        """Set up the client; it connects at the first call.

        `address` is the gateway's `host:port` (default: see `choose_address`). `token` is an API key or a token of
        the gateway's issuer (default: HANSEI_TOKEN). `tls` names the TLS files, or is False for plaintext (default:
        HANSEI_TLS_*).
        """
        address = choose_address(address)
        channel = BlockingChannel(
            _get_peer_name(address), address, _format_authorization(token), build_credentials(tls)
        )
        super().__init__(address, channel)
        self._fallback = SearchFallback()

    @classmethod
    @contextmanager
    def local(cls, **variables: str) -> Iterator[Self]:
        """Run every service in this process for the length of the block; see `hansei.client.local`.

        Without LLM_PROVIDER, OPENAI_API_KEY and OPENAI_BASE_URL, in the environment or in `variables`, it needs no
        key: the services work by rules, without a model.

        Raises:
            BadSetting: a setting is unknown, missing or unusable; the message names it.
            ServerNotInstalledError: the package of the servers is missing.
        """
        from hansei.client.local import run_stack_in_background

        with run_stack_in_background(variables) as address, cls(address, tls=False) as client:
            yield client

    @overload
    def learn(self, trajectory: Trajectory, **options: Unpack[LearnOptions]) -> LearnResponse: ...
    @overload
    def learn(
        self, *, messages: Messages, succeeded: bool, dataset: str = ..., **options: Unpack[ConversationOptions]
    ) -> LearnResponse: ...
    def learn(
        self,
        trajectory: Trajectory | None = None,
        *,
        messages: Messages | None = None,
        succeeded: bool | None = None,
        dataset: str | None = None,
        **options: Any,
    ) -> LearnResponse:
        """Reflect on a trajectory, or on a conversation, and curate the lessons into its dataset.

        A conversation is a list of `messages`, with tool calls and their results; it is learned once. It needs
        `succeeded`; its dataset is `default` unless `dataset` is set. A trajectory has its own outcome and dataset.

        Raises:
            TypeError: an argument is missing, `trajectory` is no trajectory, or `succeeded` is no bool.
            ValueError: `messages` is empty, or an argument of a conversation is set beside a trajectory.
        """
        _check_learn_arguments(trajectory, messages, succeeded, dataset)
        if trajectory is None:
            from hansei.client.conversations import encode_conversation, read_conversation

            content = encode_conversation(messages or (), bool(succeeded), options)
            parsed = self.reflector.parse_trajectories(content=content, dataset=dataset or NEW_DATASET)
            record = read_conversation(parsed)
            trajectory, options = record.trajectory, record.learn_options
        return self.gateway.learn(trajectory=trajectory, dataset=trajectory.dataset, **options)

    def search(
        self,
        dataset: str,
        text: str,
        *,
        sections: Sequence[str] = (),
        min_revision: int = 0,
        allow_missing: bool = False,
        **options: Unpack[SearchOptions],
    ) -> SearchResponse:
        """Return the bullets of a dataset that match a text, best first.

        `sections`: only bullets of these. `min_revision`: wait until the index holds this revision, as `learn` returned
        it. `allow_missing`: a dataset that does not exist gives no results; otherwise it raises `NotFound`.
        """
        from hansei.search.v1.search_pb2 import SearchQuery

        query = build_message(SearchQuery, query_text=text, section_filter=sections, **options)
        return self.index.search(dataset=dataset, query=query, min_revision=min_revision, allow_missing=allow_missing)

    def recall(self, dataset: str, session_id: str, query: str, **options: Unpack[RecallOptions]) -> RecallResponse:
        """Return the bullets for a query of a session, best first.

        `session_id` names one task of an agent, which ends in one outcome. While trials run, some bullets are withheld
        at random, the same ones whenever the session asks. Without an evidence service the bullets are those of
        `search`, and `note` says so.
        """
        try:
            response = self.evidence.recall(dataset=dataset, session_id=session_id, query_text=query, **options)
        except Unavailable as error:
            return self._fallback.recall_response(error, self.search(dataset, query, budget_tokens=0, **options))
        self._fallback.end()
        return response

    @contextmanager
    def serve(self, dataset: str, session_id: str, query: str, **options: Unpack[RecallOptions]) -> Iterator[Serving]:
        """Serve bullets to a session for the length of the block; report its end with `serving.report`.

        The arguments are those of `recall`. A block that raises reports nothing.
        """
        serving = Serving(self.evidence, dataset, self.recall(dataset, session_id, query, **options))
        yield serving
        serving.warn_of_missing_report()

    def guard(self, dataset: str, session_id: str) -> SessionGuard:
        """Return the guard of a session: `check` a tool call before it is made, `report` it with its result."""
        from hansei.client.guards import SessionGuard  # the compiler of targets loads slowly

        return SessionGuard(self.guards, dataset, session_id)

    def ask(
        self, dataset: str, query: str, *, min_revision: int = 0, instruction: str = "", session_id: str = ""
    ) -> AnswerResponse:
        """Answer a query from the bullets of a dataset; the response has the served and the cited bullets.

        Trials measure the answers to a `session_id`: report its outcome under the `serving_id` of the response.
        """
        return self.gateway.answer(
            dataset=dataset, query=query, min_revision=min_revision, instruction=instruction, session_id=session_id
        )

    def remember(
        self, dataset: str, text: str, *, section: str = DEFAULT_SECTION, **options: Unpack[EditOptions]
    ) -> ApplyDeltasResponse:
        """Add a lesson to a dataset; `operations[0]` has its id, also if the same lesson is already there."""
        deltas = [build_addition(text, section)]
        return accept(self.playbooks.apply_deltas(dataset=dataset, deltas=deltas, **options), dataset)

    def forget(self, dataset: str, bullet_id: str, **options: Unpack[EditOptions]) -> ApplyDeltasResponse:
        """Remove a bullet from a dataset; its history stays. Raises NotFound."""
        return self._change_bullet(dataset, build_removal(bullet_id), options)

    def edit(self, dataset: str, bullet_id: str, text: str, **options: Unpack[EditOptions]) -> ApplyDeltasResponse:
        """Replace the text of a bullet. Raises NotFound; Aborted if it changed after `base_revision`."""
        return self._change_bullet(dataset, build_replacement(bullet_id, text), options)

    def _change_bullet(self, dataset: str, delta: Delta, options: EditOptions) -> ApplyDeltasResponse:
        response = self.playbooks.apply_deltas(dataset=dataset, deltas=[delta], **options)
        if is_bullet_missing(response):
            with suppress(PermissionDenied):  # a key may edit datasets that it may not read
                self.playbooks.get_dataset(dataset=dataset)  # raises NotFound if the dataset is missing
        return accept(response, dataset)

    def import_playbook(self, dataset: str, content: bytes, **options: Unpack[ImportOptions]) -> ImportPlaybookResponse:
        """Import a playbook file."""
        return self.playbooks.import_chunks(iterate_import_requests(dataset, content, options))

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

    def __init__(self, address: str | None = None, *, token: str | None = None, tls: TlsChoice = None) -> None:
        """Set up the client; the arguments are those of `Client`."""
        from chassis.channels import Peers

        address = choose_address(address)
        name = _get_peer_name(address)
        self._peers = Peers({name: address}, credential=_format_authorization(token), tls=build_credentials(tls))
        super().__init__(address, self._peers.get_channel(name))
        self._fallback = SearchFallback()

    def with_token(self, token: str) -> AsyncClient:
        """Return a client that calls with another token, on the connection of this client and until this one closes."""
        client = AsyncClient.__new__(AsyncClient)
        client._peers, client._fallback = self._peers, SearchFallback()
        AllServices.__init__(client, self.address, self._channel.with_credential(_format_authorization(token)))
        return client

    @classmethod
    @asynccontextmanager
    async def local(cls, **variables: str) -> AsyncIterator[Self]:
        """Run every service in this loop for the length of the block; see `Client.local`."""
        from hansei.client.local import run_stack_in_loop

        async with run_stack_in_loop(variables) as address, cls(address, tls=False) as client:
            yield client

    @overload
    async def learn(self, trajectory: Trajectory, **options: Unpack[LearnOptions]) -> LearnResponse: ...
    @overload
    async def learn(
        self, *, messages: Messages, succeeded: bool, dataset: str = ..., **options: Unpack[ConversationOptions]
    ) -> LearnResponse: ...
    async def learn(
        self,
        trajectory: Trajectory | None = None,
        *,
        messages: Messages | None = None,
        succeeded: bool | None = None,
        dataset: str | None = None,
        **options: Any,
    ) -> LearnResponse:
        """Reflect on a trajectory, or on a conversation, and curate the lessons into its dataset.

        A conversation is a list of `messages`, with tool calls and their results; it is learned once. The
        arguments and errors are those of `Client.learn`.
        """
        _check_learn_arguments(trajectory, messages, succeeded, dataset)
        if trajectory is None:
            from hansei.client.conversations import encode_conversation, read_conversation

            content = encode_conversation(messages or (), bool(succeeded), options)
            parsed = await self.reflector.parse_trajectories(content=content, dataset=dataset or NEW_DATASET)
            record = read_conversation(parsed)
            trajectory, options = record.trajectory, record.learn_options
        return await self.gateway.learn(trajectory=trajectory, dataset=trajectory.dataset, **options)

    async def search(
        self,
        dataset: str,
        text: str,
        *,
        sections: Sequence[str] = (),
        min_revision: int = 0,
        allow_missing: bool = False,
        **options: Unpack[SearchOptions],
    ) -> SearchResponse:
        """Return the bullets of a dataset that match a text, best first; the arguments are those of `Client.search`."""
        from hansei.search.v1.search_pb2 import SearchQuery

        query = build_message(SearchQuery, query_text=text, section_filter=sections, **options)
        return await self.index.search(
            dataset=dataset, query=query, min_revision=min_revision, allow_missing=allow_missing
        )

    async def recall(
        self, dataset: str, session_id: str, query: str, **options: Unpack[RecallOptions]
    ) -> RecallResponse:
        """Return the bullets for a query of a session, best first; see `Client.recall`."""
        try:
            response = await self.evidence.recall(dataset=dataset, session_id=session_id, query_text=query, **options)
        except Unavailable as error:
            return self._fallback.recall_response(error, await self.search(dataset, query, budget_tokens=0, **options))
        self._fallback.end()
        return response

    @asynccontextmanager
    async def serve(
        self, dataset: str, session_id: str, query: str, **options: Unpack[RecallOptions]
    ) -> AsyncIterator[AsyncServing]:
        """Serve bullets to a session for the length of the block; see `Client.serve`."""
        serving = AsyncServing(self.evidence, dataset, await self.recall(dataset, session_id, query, **options))
        yield serving
        serving.warn_of_missing_report()

    def guard(self, dataset: str, session_id: str) -> AsyncSessionGuard:
        """Return the guard of a session; see `Client.guard`."""
        from hansei.client.guards import AsyncSessionGuard  # the compiler of targets loads slowly

        return AsyncSessionGuard(self.guards, dataset, session_id)

    async def ask(
        self, dataset: str, query: str, *, min_revision: int = 0, instruction: str = "", session_id: str = ""
    ) -> AnswerResponse:
        """Answer a query from the bullets of a dataset; the response has the served and the cited bullets.

        Trials measure the answers to a `session_id`: report its outcome under the `serving_id` of the response.
        """
        return await self.gateway.answer(
            dataset=dataset, query=query, min_revision=min_revision, instruction=instruction, session_id=session_id
        )

    async def remember(
        self, dataset: str, text: str, *, section: str = DEFAULT_SECTION, **options: Unpack[EditOptions]
    ) -> ApplyDeltasResponse:
        """Add a lesson to a dataset; `operations[0]` has its id, also if the same lesson is already there."""
        deltas = [build_addition(text, section)]
        return accept(await self.playbooks.apply_deltas(dataset=dataset, deltas=deltas, **options), dataset)

    async def forget(self, dataset: str, bullet_id: str, **options: Unpack[EditOptions]) -> ApplyDeltasResponse:
        """Remove a bullet from a dataset; its history stays. Raises NotFound."""
        return await self._change_bullet(dataset, build_removal(bullet_id), options)

    async def edit(
        self, dataset: str, bullet_id: str, text: str, **options: Unpack[EditOptions]
    ) -> ApplyDeltasResponse:
        """Replace the text of a bullet. Raises NotFound; Aborted if it changed after `base_revision`."""
        return await self._change_bullet(dataset, build_replacement(bullet_id, text), options)

    async def _change_bullet(self, dataset: str, delta: Delta, options: EditOptions) -> ApplyDeltasResponse:
        response = await self.playbooks.apply_deltas(dataset=dataset, deltas=[delta], **options)
        if is_bullet_missing(response):
            with suppress(PermissionDenied):  # a key may edit datasets that it may not read
                await self.playbooks.get_dataset(dataset=dataset)  # raises NotFound if the dataset is missing
        return accept(response, dataset)

    async def import_playbook(
        self, dataset: str, content: bytes, **options: Unpack[ImportOptions]
    ) -> ImportPlaybookResponse:
        """Import a playbook file."""
        return await self.playbooks.import_chunks(iterate_import_requests(dataset, content, options))

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
