"""The input of a tool for a step (P-39, P-40). All of it is data: none of its text is substituted or evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from libs.prompts.language import Language
from services.planner.domain.execution import ExecutionState
from services.planner.domain.plans import Action, PlanStep, StepStatus
from services.planner.domain.results import Hit
from services.planner.domain.texts import TEXTS


@dataclass(frozen=True, slots=True)
class ToolInput:
    """The input of one tool call.

    `key` is the same for every attempt at the same call, also after a crash; `context` contains labelled texts. The
    names of everything that the tool may access begin with `prefix`.
    """

    query: str
    key: str = ""
    collection: str | None = None
    sources: tuple[Hit, ...] = ()
    context: tuple[tuple[str, str], ...] = ()
    seconds: float = 30.0
    prefix: str = ""
    language: Language = "en"
    execution_id: str = ""
    texts: tuple[tuple[str, str], ...] = ()
    """The texts of the user, each with a name that is unique in the execution."""
    approved_calls: frozenset[str] = frozenset()
    """The keys of the calls that a person approved although a guard held them."""

    @property
    def is_out_of_scope(self) -> bool:
        """Return True if the collection does not begin with the prefix."""
        return not (self.collection or self.prefix).startswith(self.prefix)


def build_tool_input(state: ExecutionState, step: PlanStep, action: Action, key: str) -> ToolInput:
    """Return the input of the tool for `action` and this step; only results of its own dependencies are included."""
    texts = TEXTS[state.language]
    build = partial(
        ToolInput,
        key=key,
        seconds=step.seconds,
        prefix=state.plan.prefix,
        language=state.language,
        execution_id=state.execution_id,
        texts=_list_user_texts(state),
        approved_calls=state.approved_calls,
    )
    if action is not Action.REASONING:
        # An agent chooses its own searches, so they are limited to the collection of the plan.
        collections = {Action.RAG_SEARCH: step.collection, Action.RUN_LEGACY_AGENT: state.plan.collection or None}
        inputs = state.user_inputs if action is Action.RUN_LEGACY_AGENT else ()
        labelled = tuple((texts.user_input, text) for text in inputs)
        return build(step.query or step.description, collection=collections.get(action), context=labelled)
    sources: list[Hit] = []
    context: list[tuple[str, str]] = []
    for dependency in step.depends_on:
        if state.step_statuses.get(dependency) is not StepStatus.SUCCESS:
            continue
        hits = state.list_hits(dependency)
        sources.extend(hits)
        output = state.step_results[dependency].output
        if not hits and output:
            context.append((f"Step {dependency}", output))
        call = state.find_last_call(dependency)
        if call is not None and call.result is not None:
            context.extend((texts.lesson, text) for text in call.result.advice)
    context.extend((texts.user_input, text) for text in state.user_inputs)
    context.extend((texts.information, text) for text in state.information)
    return build(step.query or state.plan.original_query, sources=tuple(sources), context=tuple(context))


def _list_user_texts(state: ExecutionState) -> tuple[tuple[str, str], ...]:
    inputs = ((f"input-{number}", text) for number, text in enumerate(state.user_inputs))
    information = ((f"information-{number}", text) for number, text in enumerate(state.information))
    return (("query", state.plan.original_query), *inputs, *information)
