"""Sessions of an agent on OpenAI's client: prompts get bullets, and hansei learns from the session when it ends."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from openai import AsyncOpenAI, OpenAI

from hansei.client.client import AsyncClient, Client
from hansei.client.errors import HanseiError, Unimplemented
from hansei.client.openai.messages import read_field, record_message
from hansei.client.openai.streams import AsyncRecordedStream, RecordedStream, Wrapper
from hansei.client.outages import OnError, skip_outage
from hansei.client.recording import Recording, describe_error, format_bullets
from hansei.evidence.v1.evidence_service_pb2 import RecallResponse
from hansei.gateway.v1.gateway_service_pb2 import LearnResponse
from hansei.playbook.v1.playbook_pb2 import Bullet
from hansei.reflector.v1 import trajectory_pb2 as tpb
from hansei.search.v1.search_service_pb2 import SearchResponse

if TYPE_CHECKING:
    from hansei.client.guards import AsyncSessionGuard, SessionGuard

PREAMBLE = (
    "Lessons from earlier trajectories follow, one a line, each after its id. When you act on a lesson, cite it: write "
    "its id in brackets, exactly as given."
)
_INSTRUCTIONS = ("system", "developer")

OpenAIClient = TypeVar("OpenAIClient", bound=OpenAI | AsyncOpenAI)
HanseiClient = TypeVar("HanseiClient", bound=Client | AsyncClient)
Guard = TypeVar("Guard", bound="SessionGuard | AsyncSessionGuard")


@dataclass(frozen=True, slots=True)
class _Verdict:
    """The end of a session as the calling program reports it, and the evidence."""

    is_success: bool
    test_report: str
    reward: float | None
    ground_truth: str

    def write_to(self, trajectory: tpb.Trajectory) -> None:
        """Set status, reward and signal of the trajectory."""
        trajectory.status = tpb.TRAJECTORY_STATUS_SUCCESS if self.is_success else tpb.TRAJECTORY_STATUS_FAILURE
        if self.reward is not None or not (self.test_report or self.ground_truth):
            trajectory.reward = float(self.is_success) if self.reward is None else self.reward
            trajectory.signal = tpb.SIGNAL_STRENGTH_REWARD
        else:
            trajectory.signal = (
                tpb.SIGNAL_STRENGTH_TEST_REPORT if self.test_report else tpb.SIGNAL_STRENGTH_GROUND_TRUTH
            )


class _Session(Generic[OpenAIClient, HanseiClient, Guard]):
    """The parts that both kinds of sessions share."""

    _completions: Callable[[Any, Any], Wrapper]

    def __init__(
        self,
        openai: OpenAIClient,
        hansei: HanseiClient,
        dataset: str,
        *,
        top_k: int | None = None,
        min_confidence: float | None = None,
        session_id: str = "",
        preamble: str = PREAMBLE,
        task_id: str = "",
        guard: Guard | None = None,
        on_error: OnError = "skip",
    ) -> None:
        self.recording = Recording(dataset, task_id)
        self.learn_response: LearnResponse | None = None
        """The response of Learn; None before the block has ended, and if hansei was unavailable."""
        self._openai = openai
        self._hansei = hansei
        # The first session of an agent asks for bullets before its trajectory creates the dataset.
        self._options: dict[str, Any] = {"top_k": top_k, "allow_missing": True}
        self._min_confidence = min_confidence
        self._session_id = session_id or (guard.session_id if guard else uuid.uuid4().hex)
        self._guard: Guard | None = guard
        self._preamble = preamble
        self._on_error = on_error
        self._last_query = ""
        self._bullets: list[Bullet] = []
        self._verdict: _Verdict | None = None
        self.chat = _Chat(self._completions(self, openai.chat.completions), openai.chat)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._openai, name)

    @property
    def responses(self) -> Any:
        """Raise Unimplemented: calls of OpenAI's Responses API would get no bullets and would not be recorded."""
        raise Unimplemented(
            "an agent session does not support OpenAI's Responses API: use session.chat.completions.create, or "
            "`responses` of OpenAI's client itself for calls without a memory",
            reason="RESPONSES_NOT_SUPPORTED",
        )

    @property
    def served_bullets(self) -> tuple[Bullet, ...]:
        """Return all bullets that were added to a prompt so far."""
        return self.recording.served_bullets

    def mark_success(self, test_report: str = "", *, reward: float | None = None, ground_truth: str = "") -> None:
        """Report that the agent did its task, with the evidence; without evidence, it counts as a reward of 1."""
        self._verdict = _Verdict(True, test_report, reward, ground_truth)

    def mark_failure(self, test_report: str = "", *, reward: float | None = None, ground_truth: str = "") -> None:
        """Report that the agent did not do its task; without evidence, it counts as a reward of 0."""
        self._verdict = _Verdict(False, test_report, reward, ground_truth)

    def trajectory(self, error: BaseException | None = None) -> tpb.Trajectory:
        """Return the trajectory so far.

        Without `mark_success` or `mark_failure`, an `error` makes it a failure; otherwise the agent itself reports a
        success.
        """
        if self._verdict is not None:
            trajectory = self.recording.trajectory()
            self._verdict.write_to(trajectory)
            return trajectory
        trajectory = self.recording.trajectory(error=None if error is None else describe_error(error))
        trajectory.signal = tpb.SIGNAL_STRENGTH_SELF_REPORT
        return trajectory

    def _learn_arguments(self, error: BaseException | None) -> dict[str, Any] | None:
        """Return the arguments of `learn` when the block ends; None if it was interrupted or had no query."""
        is_interrupted = error is not None and not isinstance(error, Exception)
        trajectory = self.trajectory(error)
        if not trajectory.query or is_interrupted:
            return None
        evidence = self._verdict
        return {
            "trajectory": trajectory,
            "test_report": evidence.test_report if evidence else "",
            "ground_truth": evidence.ground_truth if evidence else "",
        }

    def _find_new_query(self, messages: Iterable[Any]) -> str:
        """Record the messages; return the last text of a user, or nothing if it has its bullets already."""
        conversation = [record_message(message) for message in messages]
        self.recording.add_conversation(conversation)
        texts = (message.content for message in reversed(conversation) if message.role == "user")
        query = next((text for text in texts if text.strip()), "")
        return "" if query == self._last_query else query

    def _request_bullets(self, query: str) -> Any:
        """Recall the bullets of this session, or search where a confidence is required: trials have none."""
        dataset = self.recording.dataset
        if self._min_confidence is None:
            return self._hansei.recall(dataset, self._session_id, query, **self._options)
        return self._hansei.search(
            dataset, query, min_confidence=self._min_confidence, budget_tokens=0, **self._options
        )

    def _serve(self, query: str, response: RecallResponse | SearchResponse) -> None:
        """Use the bullets for a query in the prompts from now on."""
        self._last_query = query
        if isinstance(response, RecallResponse):
            self.recording.add_serving(response.serving_id)
        self._bullets = [result.bullet for result in response.results]
        self.recording.add_served_bullets(self._bullets)

    def _add_bullets(self, messages: list[Any]) -> list[Any]:
        """Return the messages with the bullets after the instructions at their beginning."""
        if not self._bullets:
            return messages
        are_instructions = [read_field(message, "role") in _INSTRUCTIONS for message in messages]
        start = [*are_instructions, False].index(False)
        memory = {"role": "system", "content": f"{self._preamble}\n\n{format_bullets(self._bullets)}"}
        return [*messages[:start], memory, *messages[start:]]

    def record_reply(self, reply: Any) -> None:
        """Record a whole reply."""
        for choice in reply.choices[:1]:
            self.recording.add_message(record_message(choice.message))


class _Chat(Wrapper):
    def __init__(self, completions: Any, inner: Any) -> None:
        super().__init__(inner)
        self.completions = completions


class _Completions(Wrapper):
    def __init__(self, session: AgentSession, inner: Any) -> None:
        super().__init__(inner)
        self._session = session

    def create(self, *, messages: Iterable[Any], **options: Any) -> Any:
        reply = self._inner.create(messages=self._session.prompt(messages), **options)
        if options.get("stream"):
            return RecordedStream(reply, self._session.recording)
        self._session.record_reply(reply)
        return reply

    def parse(self, *, messages: Iterable[Any], **options: Any) -> Any:
        reply = self._inner.parse(messages=self._session.prompt(messages), **options)
        self._session.record_reply(reply)
        return reply


class _AsyncCompletions(Wrapper):
    def __init__(self, session: AsyncAgentSession, inner: Any) -> None:
        super().__init__(inner)
        self._session = session

    async def create(self, *, messages: Iterable[Any], **options: Any) -> Any:
        reply = await self._inner.create(messages=await self._session.prompt(messages), **options)
        if options.get("stream"):
            return AsyncRecordedStream(reply, self._session.recording)
        self._session.record_reply(reply)
        return reply

    async def parse(self, *, messages: Iterable[Any], **options: Any) -> Any:
        reply = await self._inner.parse(messages=await self._session.prompt(messages), **options)
        self._session.record_reply(reply)
        return reply


class AgentSession(_Session[OpenAI, Client, "SessionGuard"]):
    """One session of an agent on OpenAI's blocking client; hansei learns from it when the block ends.

    `chat.completions.create` (also with `stream=True`) and `.parse` get bullets and are recorded; other attributes are
    those of OpenAI's client and are not recorded, and `responses` is refused. An exception that leaves the block makes
    the trajectory a failure. While hansei is unavailable, the agent gets no bullets and nothing is learned, unless
    `on_error="raise"`; other errors of `hansei.client.errors` are always raised. A `guard` of the session gets
    the outcome that `mark_success` or `mark_failure` reports.
    """

    _completions = _Completions

    def prompt(self, messages: Iterable[Any]) -> list[Any]:
        """Return the messages for the model, with the bullets that match."""
        messages = list(messages)
        if query := self._find_new_query(messages):
            with skip_outage(self._on_error, self.recording.dataset):
                self._serve(query, self._request_bullets(query))
        return self._add_bullets(messages)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._guard is not None and self._verdict is not None:
            self._guard.report_outcome(self._verdict.is_success)
        arguments = self._learn_arguments(error)
        if arguments is None:
            return
        try:
            with skip_outage(self._on_error, self.recording.dataset):
                self.learn_response = self._hansei.learn(**arguments)
        except HanseiError as failure:
            if error is None:
                raise
            error.add_note(f"and nothing was learned from it: {failure}")


class AsyncAgentSession(_Session[AsyncOpenAI, AsyncClient, "AsyncSessionGuard"]):
    """One session of an agent on OpenAI's async client; see `AgentSession`."""

    _completions = _AsyncCompletions

    async def prompt(self, messages: Iterable[Any]) -> list[Any]:
        """Return the messages for the model, with the bullets that match."""
        messages = list(messages)
        if query := self._find_new_query(messages):
            with skip_outage(self._on_error, self.recording.dataset):
                self._serve(query, await self._request_bullets(query))
        return self._add_bullets(messages)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._guard is not None and self._verdict is not None:
            await self._guard.report_outcome(self._verdict.is_success)
        arguments = self._learn_arguments(error)
        if arguments is None:
            return
        try:
            with skip_outage(self._on_error, self.recording.dataset):
                self.learn_response = await self._hansei.learn(**arguments)
        except HanseiError as failure:
            if error is None:
                raise
            error.add_note(f"and nothing was learned from it: {failure}")
