"""What a tool is given for a step (P-39, P-40). Everything in it is data: no text of it is substituted or evaluated."""

from __future__ import annotations

from dataclasses import dataclass

from services.planner.domain.execution import ExecutionState
from services.planner.domain.interventions import USER_INPUT_LABEL
from services.planner.domain.plans import Action, PlanStep, StepStatus
from services.planner.domain.results import Hit

INFORMATION_LABEL = "追加情報"


@dataclass(frozen=True, slots=True)
class ToolInput:
    """One call of a tool: what to look for or answer, where, and with what.

    `key` is the same for every attempt to perform the same call, also after a crash; `context` are labelled texts. The
    names of all it may look in begin with `prefix`.
    """

    query: str
    key: str = ""
    collection: str | None = None
    sources: tuple[Hit, ...] = ()
    context: tuple[tuple[str, str], ...] = ()
    seconds: float = 30.0
    prefix: str = ""

    @property
    def is_out_of_scope(self) -> bool:
        """Whether it is to look in something whose name does not begin with its prefix."""
        return not (self.collection or self.prefix).startswith(self.prefix)


def build_tool_input(state: ExecutionState, step: PlanStep, action: Action, key: str) -> ToolInput:
    """What the tool for `action` gets for this step; only results of the step's own dependencies."""
    if action is not Action.REASONING:
        query = step.query or step.description
        collection = step.collection if action is Action.RAG_SEARCH else None
        return ToolInput(query, key, collection, seconds=step.seconds, prefix=state.plan.prefix)
    sources: list[Hit] = []
    context: list[tuple[str, str]] = []
    for dependency in step.depends_on:
        if state.step_statuses.get(dependency) is not StepStatus.SUCCESS:
            continue
        hits = state.hits(dependency)
        sources.extend(hits)
        output = state.step_results[dependency].output
        if not hits and output:
            context.append((f"Step {dependency}", output))
    context.extend((USER_INPUT_LABEL, text) for text in state.user_inputs)
    context.extend((INFORMATION_LABEL, text) for text in state.information)
    question = step.query or state.plan.original_query
    return ToolInput(question, key, None, tuple(sources), tuple(context), step.seconds, state.plan.prefix)
