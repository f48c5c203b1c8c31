"""The core of all adapters: lessons before a task, a check of each tool call, the outcome and the trajectory after it.

memory = AgentMemory(client, "devtools")
prompt = memory.recall(task)                    # the lessons, as lines of a prompt
verdict = memory.check("git", {"args": [...]})  # may the agent make this call?
memory.report({"messages": messages}, succeeded=True)
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hansei.client.client import Client, check_outcome
from hansei.client.outages import OnError, skip_outage
from hansei.client.serving import Serving
from hansei.client.trajectories import TrajectoryRecord
from hansei.gateway.v1.gateway_service_pb2 import LearnResponse
from hansei.reflector.v1 import trajectory_pb2

if TYPE_CHECKING:
    from hansei.client.guards import SessionGuard

INTRO = "Lessons from earlier tasks. Follow those that fit:"


@dataclass(frozen=True, slots=True)
class ToolVerdict:
    """The decision about a tool call, and the lesson behind it."""

    is_allowed: bool = True
    text: str = ""

    @property
    def refusal(self) -> str:
        """Return the result of a refused call, for frameworks that show errors of tools as text."""
        return f"Error: {self.text}"


ToolCheck = Callable[[str, str, Mapping[str, Any]], ToolVerdict]
"""Returns the verdict on a call: of a session, a tool and its arguments."""


def allow_every_call(session_id: str, tool: str, arguments: Mapping[str, Any]) -> ToolVerdict:
    """Allow the call: the check of a server without guards."""
    return ToolVerdict()


class AgentMemory:
    """The memory of an agent for one task: one session, which ends in one outcome.

    A `guard`, `client.guard(dataset, session_id)`, decides about tool calls and gets the outcome of the task; the calls
    that are made must be reported to it. While hansei is unavailable the agent continues without it, unless
    `on_error="raise"`.
    """

    def __init__(
        self,
        client: Client,
        dataset: str,
        *,
        session_id: str = "",
        top_k: int | None = None,
        tool_check: ToolCheck = allow_every_call,
        guard: SessionGuard | None = None,
        on_error: OnError = "skip",
    ) -> None:
        self.client = client
        self.dataset = dataset
        self.session_id = session_id or (guard.session_id if guard else str(uuid.uuid4()))
        self._top_k = top_k
        self._tool_check = tool_check
        self._guard = guard
        self._on_error: OnError = on_error
        self._tasks: dict[str, str] = {}
        self._serving: Serving | None = None
        self._bullet_ids: dict[str, None] = {}

    @property
    def serving_id(self) -> str:
        """Return the id under which the outcome is reported; empty if nothing is measured."""
        return self._serving.serving_id if self._serving else ""

    def recall(self, task: str) -> str:
        """Return the lessons for a task as lines of a prompt, empty if there are none. Each task is asked for once."""
        if task not in self._tasks and task.strip():
            with skip_outage(self._on_error, self.dataset):
                self._tasks[task] = self._recall(task)
        return self._tasks.get(task, "")

    def check(self, tool: str, arguments: Mapping[str, Any]) -> ToolVerdict:
        """Return whether the agent may make a tool call; a person who must decide has not allowed it yet."""
        verdict = self._guard.check(tool, arguments) if self._guard else None
        if verdict is not None and verdict.decision != "allow":
            return ToolVerdict(verdict.decision == "advise", verdict.text)
        with skip_outage(self._on_error, self.dataset):
            return self._tool_check(self.session_id, tool, arguments)
        return ToolVerdict()

    async def recall_async(self, task: str) -> str:
        """Return the lessons for a task like `recall`, without blocking the event loop."""
        return await asyncio.to_thread(self.recall, task)

    async def check_async(self, tool: str, arguments: Mapping[str, Any]) -> ToolVerdict:
        """Return the verdict on a tool call like `check`, without blocking the event loop."""
        return await asyncio.to_thread(self.check, tool, arguments)

    def report(self, document: object, *, succeeded: bool, reward: float | None = None) -> LearnResponse | None:
        """Report how the task ended, and learn from its trajectory: a document in any format that the reflector reads.

        If the document has several trajectories, because agents called others, the first one is learned.
        Returns None while hansei is unavailable. Raises InvalidArgument for a document without a trajectory, and
        TypeError if `succeeded` is no bool.
        """
        check_outcome(succeeded)
        if self._guard is not None:
            self._guard.report_outcome(succeeded)
        with skip_outage(self._on_error, self.dataset):
            if self._serving is not None:
                self._serving.report(**({"succeeded": succeeded} if reward is None else {"reward": reward}))
        with skip_outage(self._on_error, self.dataset):
            record = self._parse_document(document)
            trajectory = record.trajectory
            success, failure = trajectory_pb2.TRAJECTORY_STATUS_SUCCESS, trajectory_pb2.TRAJECTORY_STATUS_FAILURE
            trajectory.status = success if succeeded else failure
            trajectory.used_bullet_ids[:] = list(self._bullet_ids)
            if reward is not None:
                trajectory.reward = reward
            return self.client.learn(trajectory, **record.learn_options)
        return None

    def _recall(self, task: str) -> str:
        response = self.client.recall(self.dataset, self.session_id, task, top_k=self._top_k, allow_missing=True)
        self._serving = Serving(self.client.evidence, self.dataset, response)
        self._bullet_ids.update(dict.fromkeys(bullet.id for bullet in self._serving.bullets))
        return f"{INTRO}\n{self._serving.text}" if self._serving.bullets else ""

    def _parse_document(self, document: object) -> TrajectoryRecord:
        content = json.dumps(document, ensure_ascii=False, default=str).encode("utf-8", "replace")
        response = self.client.reflector.parse_trajectories(content=content, dataset=self.dataset)
        parsed = response.trajectories[0]
        return TrajectoryRecord("report", parsed.trajectory, parsed.ground_truth, parsed.test_report)
