"""Draw a plan as a mermaid flowchart, with the states of the steps where there are any."""

from __future__ import annotations

from collections.abc import Mapping

from chassis.errors import shorten
from services.planner.domain.plans import ExecutionPlan, StepStatus

_LABEL_CHARS = 60
_COLOURS = {
    StepStatus.PENDING: "fill:#eee,stroke:#999,color:#333",
    StepStatus.RUNNING: "fill:#cfe3ff,stroke:#1a62c6,color:#123",
    StepStatus.SUCCESS: "fill:#cdeccf,stroke:#2b8a3e,color:#123",
    StepStatus.PARTIAL: "fill:#fff3bf,stroke:#b08900,color:#123",
    StepStatus.FAILED: "fill:#ffd6d6,stroke:#c92a2a,color:#123",
    StepStatus.SKIPPED: "fill:#fff,stroke:#bbb,color:#888,stroke-dasharray:4",
}


def _escape_label(text: str) -> str:
    """Return text as a mermaid label; every character with a meaning in mermaid is escaped."""
    shortened = shorten(text, _LABEL_CHARS)
    return "".join(char if char.isalnum() or char in " -_.,…" else f"#{ord(char)};" for char in shortened)


def draw_mermaid(plan: ExecutionPlan, statuses: Mapping[int, StepStatus] | None = None) -> str:
    """Return the flowchart of a plan; `statuses` colour its steps."""
    lines = ["flowchart TD"]
    for step in plan.steps:
        lines.append(f'  s{step.step_id}["{step.step_id}. {step.action.value}<br/>{_escape_label(step.description)}"]')
    lines += [f"  s{d} --> s{step.step_id}" for step in plan.steps for d in step.depends_on]
    if statuses is not None:
        used = {statuses.get(step.step_id, StepStatus.PENDING) for step in plan.steps}
        lines += [f"  classDef {status.value} {_COLOURS[status]}" for status in StepStatus if status in used]
        for step in plan.steps:
            lines.append(f"  class s{step.step_id} {statuses.get(step.step_id, StepStatus.PENDING).value}")
    return "\n".join(lines) + "\n"
