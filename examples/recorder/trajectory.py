"""A recorded trajectory: one script on one task, step by step, in hansei's JSON form."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

Role = Literal["system", "user", "assistant", "tool"]
Status = Literal["success", "failure"]


@dataclass(frozen=True)
class ToolCall:
    """One tool call of the agent; `id` links it to the tool step with its result."""

    id: str
    name: str
    arguments: Mapping[str, object]


@dataclass(frozen=True)
class Step:
    """One message: the user's query, a message and calls of the agent, or the real output of a tool."""

    index: int
    role: Role
    name: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


@dataclass(frozen=True)
class Trajectory:
    """One recorded trajectory (R-01, R-02) with its steps, the right answer and the report of a real check.

    Trajectories of the same task have the same `task_id`. `created_at` is UTC in ISO 8601. Bullet ids are empty:
    only the stack that serves bullets knows them.
    """

    id: str
    task_id: str
    dataset: str
    query: str
    status: Status
    generated_answer: str
    error_message: str | None
    reasoning_steps: tuple[str, ...]
    used_bullet_ids: tuple[str, ...]
    cited_bullet_ids: tuple[str, ...]
    created_at: str
    ground_truth: str
    test_report: str
    steps: tuple[Step, ...]

    def to_json(self) -> str:
        """Return indented JSON text; empty `tool_calls` and `tool_call_id` of a step are omitted."""
        fields = asdict(self)
        for step in fields["steps"]:
            for key in ("tool_calls", "tool_call_id"):
                if not step[key]:
                    del step[key]
        return json.dumps(fields, ensure_ascii=False, indent=2) + "\n"

    def save(self, directory: Path) -> Path:
        """Write `<id>.json` into `directory` and return its path."""
        path = directory / f"{self.id}.json"
        path.write_text(self.to_json(), encoding="utf-8")
        return path
