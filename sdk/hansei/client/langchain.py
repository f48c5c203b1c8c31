"""LangChain with a memory: a retriever for a playbook, and a callback handler that records trajectories.

    from hansei.client import Client
    from hansei.client.langchain import PlaybookRetriever, TrajectoryRecorder

    with Client() as hansei:
        recorder = TrajectoryRecorder("devtools")
        answer = chain.invoke(task, config={"callbacks": [recorder]})
        for trajectory in recorder.take():
            hansei.learn(trajectory, test_report=report)

Requires the extra `langchain`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self
from uuid import UUID

from pydantic import ConfigDict, model_validator

from chassis.json_texts import format_as_text
from chassis.quotations import mark_quotations
from hansei.client.client import AsyncClient, Client, RecallOptions
from hansei.client.extras import import_from_extra
from hansei.client.outages import OnError, skip_outage
from hansei.client.recording import RecordedCall, RecordedMessage, Recording, Role, describe_error, format_error
from hansei.playbook.v1.playbook_pb2 import Bullet
from hansei.reflector.v1.trajectory_pb2 import Trajectory
from hansei.search.v1.search_pb2 import SearchResult

with import_from_extra("langchain", "langchain_core"):
    from langchain_core.callbacks import (
        AsyncCallbackManagerForRetrieverRun,
        BaseCallbackHandler,
        CallbackManagerForRetrieverRun,
    )
    from langchain_core.callbacks.manager import BaseRunManager
    from langchain_core.documents import Document
    from langchain_core.messages import BaseMessage, ToolMessage
    from langchain_core.outputs import LLMResult
    from langchain_core.retrievers import BaseRetriever

MAX_STORED_TRAJECTORIES = 1_000
_BULLET_ID = "bullet_id"
_SERVING_ID = "serving_id"
_MODEL = "model"
_ROLES: dict[str, Role] = {"system": "system", "human": "user", "ai": "assistant", "tool": "tool", "function": "tool"}


class PlaybookRetriever(BaseRetriever):
    """Retrieve bullets of a playbook as documents, best first.

    The id of a document is the id of its bullet; `metadata` has `bullet_id`, `dataset`, `section`, `score` (combined),
    `vector_score`, `bm25_score`, `helpful` and `harmful`. Async chains use `async_client` if it is set. While hansei is
    unavailable, there are no documents, unless `on_error="raise"`.

    With a `session_id`, which names one task of an agent, the bullets are recalled: trials measure them, and `metadata`
    has the `serving_id` under which the recorded trajectory reports its outcome. Trials take no `sections`,
    `min_confidence` and `alpha`; a `session_id` together with these raises ValueError.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    client: Client | None = None
    async_client: AsyncClient | None = None
    dataset: str
    top_k: int | None = None
    sections: Sequence[str] = ()
    min_confidence: float | None = None
    alpha: float | None = None
    session_id: str = ""
    on_error: OnError = "skip"

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        if self.client is None:
            raise ValueError("a PlaybookRetriever without `client` works only in async chains")
        with skip_outage(self.on_error, self.dataset):
            if self.session_id:
                recalled = self.client.recall(self.dataset, self.session_id, query, **self._recall_options)
                _record_serving(run_manager, recalled.serving_id)
                return self._convert_documents(recalled.results, recalled.serving_id)
            return self._convert_documents(self.client.search(self.dataset, query, **self._options).results)
        return []

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        if self.async_client is None:
            return await super()._aget_relevant_documents(query, run_manager=run_manager)
        with skip_outage(self.on_error, self.dataset):
            if self.session_id:
                recalled = await self.async_client.recall(self.dataset, self.session_id, query, **self._recall_options)
                _record_serving(run_manager, recalled.serving_id)
                return self._convert_documents(recalled.results, recalled.serving_id)
            found = await self.async_client.search(self.dataset, query, **self._options)
            return self._convert_documents(found.results)
        return []

    @property
    def _options(self) -> dict[str, Any]:
        options = {name: getattr(self, name) for name in ("top_k", "sections", "min_confidence", "alpha")}
        # An agent searches before its first trajectory creates the dataset.
        return options | {"allow_missing": True, "budget_tokens": 0}

    @property
    def _recall_options(self) -> RecallOptions:
        return {"top_k": self.top_k, "allow_missing": True}

    @model_validator(mode="after")
    def _check_session(self) -> Self:
        if self.session_id and (self.sections or self.min_confidence is not None or self.alpha is not None):
            raise ValueError("a session_id cannot be combined with sections, min_confidence or alpha")
        return self

    def _convert_documents(self, results: Iterable[SearchResult], serving_id: str = "") -> list[Document]:
        return [self._convert_document(result, serving_id) for result in results]

    def _convert_document(self, result: SearchResult, serving_id: str) -> Document:
        bullet = result.bullet
        return Document(
            id=bullet.id,
            page_content=mark_quotations(bullet.content),
            metadata={
                _BULLET_ID: bullet.id,
                "dataset": self.dataset,
                "section": bullet.section,
                "score": result.combined_score,
                "vector_score": result.vector_score,
                "bm25_score": result.bm25_score,
                "helpful": bullet.helpful,
                "harmful": bullet.harmful,
                **({_SERVING_ID: serving_id} if serving_id else {}),
            },
        )


def _record_serving(run_manager: BaseRunManager, serving_id: str) -> None:
    for handler in run_manager.handlers:
        if isinstance(handler, TrajectoryRecorder):
            handler.record_serving(run_manager.run_id, serving_id)


@dataclass(frozen=True, slots=True)
class _ActivePart:
    """A part of a chain that is running: the outermost run it belongs to and, for a tool, its call."""

    root: UUID
    call: RecordedCall | None = None


class TrajectoryRecorder(BaseCallbackHandler):
    """Record each outermost run as a trajectory: messages, tools and their errors, retrieved bullets.

    Concurrent runs are recorded separately. A run that raises is a failure; any other run counts as a success that the
    agent itself reports, unless `client.learn` gets evidence. The newest `MAX_STORED_TRAJECTORIES` wait for `take`.
    `on_trajectory` is called with each trajectory in the thread that ends the run (`on_trajectory=client.learn`); the
    chain raises its errors, those of an outage of hansei only with `on_error="raise"`.
    """

    raise_error = True
    run_inline = True

    def __init__(
        self,
        dataset: str,
        *,
        on_trajectory: Callable[[Trajectory], object] | None = None,
        on_error: OnError = "skip",
    ) -> None:
        self._dataset = dataset
        self._on_error = on_error
        self._on_trajectory = on_trajectory
        self._lock = threading.Lock()
        self._parts: dict[UUID, _ActivePart] = {}
        self._recordings: dict[UUID, Recording] = {}
        self._finished: deque[Trajectory] = deque(maxlen=MAX_STORED_TRAJECTORIES)

    def take(self) -> list[Trajectory]:
        """Return the trajectories that ended since the last call, oldest first."""
        with self._lock:
            trajectories = list(self._finished)
            self._finished.clear()
        return trajectories

    def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        """Record the input of the outermost chain."""
        recording = self._begin(run_id, parent_run_id)
        query = _find_query(inputs)
        if parent_run_id is None and query:
            recording.add_conversation([RecordedMessage("user", query)])

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """End the chain."""
        self._end(run_id)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """End the chain, or a retrieval, with an error."""
        self._end(run_id, error)

    on_retriever_error = on_chain_error

    def on_chat_model_start(
        self,
        serialized: Any,
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        """Record the conversation that a chat model gets."""
        recording = self._begin(run_id, parent_run_id)
        for conversation in messages[:1]:
            recording.add_conversation(_record_message(message) for message in conversation)

    def on_llm_start(
        self, serialized: Any, prompts: list[str], *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        """Record the text that a completion model gets."""
        recording = self._begin(run_id, parent_run_id)
        recording.add_conversation(RecordedMessage("user", prompt) for prompt in prompts[:1])

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Record the reply of a model; LangChain passes a streamed reply as a whole."""
        recording = self._get_recording(run_id)
        for generation in (candidates[0] for candidates in response.generations[:1] if candidates):
            message = getattr(generation, "message", None)
            reply = RecordedMessage("assistant", generation.text) if message is None else _record_message(message)
            recording.add_message(reply)
        self._end(run_id)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Record the failed call of a model."""
        text = format_error(describe_error(error))
        self._get_recording(run_id).add_message(RecordedMessage("tool", text, name=_MODEL))
        self._end(run_id, error)

    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Begin a tool call."""
        name = (serialized or {}).get("name") or kwargs.get("name") or "tool"
        arguments = input_str if inputs is None else format_as_text(inputs)
        call = RecordedCall(kwargs.get("tool_call_id") or str(run_id), name, arguments)
        self._begin(run_id, parent_run_id, call)

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Record the result of a tool."""
        text = _record_message(output).content if isinstance(output, ToolMessage) else format_as_text(output)
        self._record_result(run_id, text)
        self._end(run_id)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Record the error of a tool."""
        self._record_result(run_id, format_error(describe_error(error)))
        self._end(run_id, error)

    def on_retriever_start(
        self, serialized: Any, query: str, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        """Begin a retrieval."""
        self._begin(run_id, parent_run_id)

    def on_retriever_end(self, documents: Sequence[Document], *, run_id: UUID, **kwargs: Any) -> None:
        """Record the documents that are bullets as served."""
        recording = self._get_recording(run_id)
        recording.add_served_bullets(
            Bullet(id=document.metadata[_BULLET_ID], content=document.page_content)
            for document in documents
            if _BULLET_ID in document.metadata
        )
        self._end(run_id)

    def record_serving(self, run_id: UUID, serving_id: str) -> None:
        """Record the bullets that Recall served, even if there are none: the session counts in both cases."""
        self._get_recording(run_id).add_serving(serving_id)

    def _begin(self, run_id: UUID, parent: UUID | None, call: RecordedCall | None = None) -> Recording:
        with self._lock:
            parent_part = self._parts.get(parent) if parent is not None else None
            root = parent_part.root if parent_part is not None else run_id
            self._parts[run_id] = _ActivePart(root, call)
            if root == run_id:
                self._recordings[root] = Recording(self._dataset)
        return self._get_recording(run_id)

    def _get_recording(self, run_id: UUID) -> Recording:
        """Return the recording of a part, or one that is dropped if its outermost run has none.

        That run began before the recorder was added, or ended by an error while this part continues.
        """
        with self._lock:
            part = self._parts.get(run_id)
            recording = self._recordings.get(part.root) if part is not None else None
            return recording or Recording(self._dataset)

    def _record_result(self, run_id: UUID, text: str) -> None:
        part = self._parts.get(run_id)
        if part is not None and part.call is not None:
            self._get_recording(run_id).add_result(part.call, text)

    def _end(self, run_id: UUID, error: BaseException | None = None) -> None:
        with self._lock:
            part = self._parts.pop(run_id, None)
            if part is None or part.root != run_id:
                return
            recording = self._recordings.pop(run_id)
            trajectory = recording.trajectory(error=None if error is None else describe_error(error))
            if not trajectory.query:
                return  # without a query there is nothing to learn
            self._finished.append(trajectory)
        if self._on_trajectory is not None:
            with skip_outage(self._on_error, self._dataset):
                self._on_trajectory(trajectory)


def _find_query(inputs: Any) -> str:
    """Return the query in the input of a chain: the input if it is a text, or a text under a usual name."""
    if isinstance(inputs, str):
        return inputs
    if not isinstance(inputs, dict):
        return ""
    return next((inputs[name] for name in ("input", "question", "query") if isinstance(inputs.get(name), str)), "")


def _record_message(message: BaseMessage) -> RecordedMessage:
    calls: Iterable[Any] = (*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ()))
    text = message.text
    return RecordedMessage(
        role=_ROLES.get(message.type.removesuffix("MessageChunk").lower(), "user"),
        content=format_error(text) if getattr(message, "status", "") == "error" else text,
        name=message.name or "",
        calls=tuple(
            RecordedCall(call["id"] or "", call["name"] or "tool", format_as_text(call["args"])) for call in calls
        ),
        call_id=getattr(message, "tool_call_id", ""),
    )
