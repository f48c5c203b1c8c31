"""Record the messages of an agent while it works and make a trajectory of them; the framework adapters share this."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from chassis.quotations import build_notice, mark_quotations
from hansei.playbook.v1.playbook_pb2 import Bullet
from hansei.reflector.v1 import trajectory_pb2 as tpb

Role = Literal["system", "user", "assistant", "tool"]

MAX_TEXT_CHARS = 200_000
"""The length at which the text of a step is cut."""
MAX_STEPS = 10_000
MAX_QUERY_CHARS = 100_000
MAX_NAME_CHARS = 256
MAX_BULLETS = 1_000
MAX_SERVINGS = 100

_ROLES: dict[Role, tpb.StepRole.ValueType] = {
    "system": tpb.STEP_ROLE_SYSTEM,
    "user": tpb.STEP_ROLE_USER,
    "assistant": tpb.STEP_ROLE_ASSISTANT,
    "tool": tpb.STEP_ROLE_TOOL,
}
_CITATION = re.compile(r"\[([^\[\]\s]{1,128})\]")


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A tool call that an agent requests; `arguments` as the agent wrote them."""

    id: str
    name: str
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class RecordedMessage:
    """One message: its text, the tool calls it requests, or the id of the call whose result it is."""

    role: Role
    content: str = ""
    name: str = ""
    calls: tuple[RecordedCall, ...] = ()
    call_id: str = ""

    @property
    def key(self) -> Hashable:
        """Return a key that is the same when the message is sent again: results and calls have ids, texts have none."""
        if self.call_id:
            return self.role, self.call_id
        return self.role, self.content, tuple(call.id or call for call in self.calls)


def format_error(text: str) -> str:
    """Return the text of a failed tool result, so that it begins with "Error"."""
    return text if text.lstrip().lower().startswith("error") else f"Error: {text}"


def describe_error(error: BaseException) -> str:
    """Return the class and the message of an exception."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class Recording:
    """The messages of one trajectory in order, and the bullets that were served. It is safe to use from many threads.

    Texts are cut at `MAX_TEXT_CHARS`; steps after the first `MAX_STEPS` are dropped.
    """

    def __init__(self, dataset: str, task_id: str = "") -> None:
        self.dataset = dataset
        self.task_id = task_id
        self._lock = threading.Lock()
        self._messages: list[RecordedMessage] = []
        self._message_counts: Counter[Hashable] = Counter()
        self._call_counts: Counter[str] = Counter()
        self._served: dict[str, Bullet] = {}
        self._serving_ids: dict[str, None] = {}

    def add_message(self, message: RecordedMessage) -> None:
        """Add one message."""
        with self._lock:
            self._add(message)

    def add_conversation(self, conversation: Iterable[RecordedMessage]) -> None:
        """Add the messages of a request to a model that are new: each request repeats the whole conversation."""
        counts: Counter[Hashable] = Counter()
        with self._lock:
            for message in conversation:
                counts[message.key] += 1
                if counts[message.key] > self._message_counts[message.key]:
                    self._add(message)

    def add_result(self, call: RecordedCall, text: str) -> None:
        """Add the result of a tool call, and the call too if no message requested it."""
        result = RecordedMessage("tool", text, name=call.name, call_id=call.id)
        with self._lock:
            if not self._call_counts[call.id]:
                self._add(RecordedMessage("assistant", calls=(call,)))
            # Ids may repeat within a trajectory, so results are counted against calls.
            if self._message_counts[result.key] < self._call_counts[call.id]:
                self._add(result)

    def _add(self, message: RecordedMessage) -> None:
        self._message_counts[message.key] += 1
        self._call_counts.update(call.id for call in message.calls)
        if len(self._messages) < MAX_STEPS:
            self._messages.append(message)

    def add_served_bullets(self, bullets: Iterable[Bullet]) -> None:
        """Add bullets that the agent was given."""
        with self._lock:
            for bullet in bullets:
                if len(self._served) < MAX_BULLETS:
                    self._served.setdefault(bullet.id, bullet)

    def add_serving(self, serving_id: str) -> None:
        """Add a serving of the session, from Recall; without an id nothing was measured."""
        with self._lock:
            if serving_id and len(self._serving_ids) < MAX_SERVINGS:
                self._serving_ids[serving_id] = None

    @property
    def served_bullets(self) -> tuple[Bullet, ...]:
        """Return the bullets that the agent was given so far, without repetitions."""
        with self._lock:
            return tuple(self._served.values())

    def trajectory(self, *, error: str | None = None) -> tpb.Trajectory:
        """Return the trajectory so far: with an `error` a failure, else a success as the agent itself reports it.

        The query is the first message of a user, and the answer the last message of the assistant. Cited bullets are
        the served bullets whose ids are in the answer in brackets, `[gc-00001]`.
        """
        with self._lock:
            messages, served, serving_ids = list(self._messages), dict(self._served), list(self._serving_ids)
        query = _find_first_text(messages, "user") or _find_first_text(messages, "system")
        answer = _find_first_text(reversed(messages), "assistant")
        return tpb.Trajectory(
            task_id=self.task_id,
            query=query[:MAX_QUERY_CHARS],
            dataset=self.dataset,
            generated_answer=answer[:MAX_TEXT_CHARS],
            used_bullet_ids=served,
            serving_ids=serving_ids,
            cited_bullet_ids=dict.fromkeys(id_ for id_ in _CITATION.findall(answer) if id_ in served),
            status=tpb.TRAJECTORY_STATUS_SUCCESS if error is None else tpb.TRAJECTORY_STATUS_FAILURE,
            error_message=None if error is None else error[:MAX_QUERY_CHARS],
            steps=[_build_step(message) for message in messages],
        )


def _find_first_text(messages: Iterable[RecordedMessage], role: Role) -> str:
    return next((message.content for message in messages if message.role == role and message.content.strip()), "")


def _build_step(message: RecordedMessage) -> tpb.Step:
    return tpb.Step(
        role=_ROLES[message.role],
        name=message.name[:MAX_NAME_CHARS],
        content=message.content[:MAX_TEXT_CHARS],
        tool_calls=[
            tpb.ToolCall(
                id=call.id[:MAX_NAME_CHARS], name=call.name[:MAX_NAME_CHARS], arguments=call.arguments[:MAX_TEXT_CHARS]
            )
            for call in message.calls
        ],
        tool_call_id=message.call_id[:MAX_NAME_CHARS],
    )


def format_bullets(bullets: Sequence[Bullet]) -> str:
    """Return bullets as lines of a prompt: the id in brackets, then the text on one line with marked quotations.

    A notice on quotations comes first if there is one.
    """
    text = "\n".join(f"[{bullet.id}] {mark_quotations(' '.join(bullet.content.split()))}" for bullet in bullets)
    return "\n".join(part for part in (build_notice(text), text) if part)
