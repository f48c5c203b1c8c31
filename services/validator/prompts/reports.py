"""The prompts of a run: the base prompt, what is appended to correct a report, and the one that repairs parts of it.

Text from outside (dashboards, ids, titles, wishes, earlier answers) only ever appears as JSON on one line or inside a
fence it cannot close, so that no input can change what the prompt asks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from services.validator.domain.dashboard import Brief, Node
from services.validator.domain.kinds import ReportKind
from services.validator.domain.language import Language
from services.validator.domain.pointers import MISSING, value_at
from services.validator.domain.quoting import fenced, json_line, listed_id, one_line
from services.validator.prompts.texts import PROMPT_TEXTS

IDS_SHOWN = 20
ERRORS_SHOWN = 200


def build_base_prompt(
    kind: ReportKind, brief: Brief, nodes: Sequence[Node], focus: Node | None, language: Language = "ja"
) -> str:
    """Asks for a report of the kind about a dashboard (V-32)."""
    texts = PROMPT_TEXTS[language]
    lines = [*_task(kind, language), "", texts.nodes]
    lines += [node_line(node) for node in nodes] or [texts.no_nodes]
    lines += ["", texts.inputs, f"dashboard: {json_line(brief.dashboard)}"]
    if focus is not None:
        lines.append(f"focusNode: {node_line(focus)}")
    if brief.user_intent is not None:
        lines.append(f"userIntent: {json_line(brief.user_intent)}")
    if brief.constraints:
        lines.append(f"constraints: {json_line(list(brief.constraints))}")
    return "\n".join(lines)


def build_inputs_prompt(
    kind: ReportKind, inputs: object, valid_node_ids: Sequence[str], language: Language = "ja"
) -> str:
    """Asks for a report of a registered kind about any inputs."""
    texts = PROMPT_TEXTS[language]
    lines = [*_task(kind, language), "", texts.known_ids, json_line(list(valid_node_ids))]
    return "\n".join([*lines, "", texts.inputs, json_line(inputs)])


def _task(kind: ReportKind, language: Language) -> list[str]:
    texts, told = PROMPT_TEXTS[language], kind.told[language]
    return [texts.task.format(title=kind.title), "", texts.shape, told.shape, "", texts.rules, told.rules]


def node_line(node: Node) -> str:
    """A node as JSON on one line."""
    return json_line({"id": node.id, "title": node.title, "status": node.status})


def build_correction_prompt(
    errors: Sequence[str], valid_node_ids: Sequence[str] | None = None, language: Language = "ja"
) -> str:
    """What is wrong and which ids exist (V-30); `ERRORS_SHOWN` errors at most, each on one line."""
    texts = PROMPT_TEXTS[language]
    lines = [texts.correction, *(f"- {one_line(error)}" for error in errors[:ERRORS_SHOWN])]
    if len(errors) > ERRORS_SHOWN:
        lines.append(texts.more_errors.format(count=len(errors) - ERRORS_SHOWN))
    if valid_node_ids:
        lines.append(ids_line(valid_node_ids, language))
    return "\n".join(lines)


def ids_line(valid_node_ids: Sequence[str], language: Language) -> str:
    """The first `IDS_SHOWN` ids on one line."""
    more = " ..." if len(valid_node_ids) > IDS_SHOWN else ""
    ids = ", ".join(listed_id(node_id) for node_id in valid_node_ids[:IDS_SHOWN])
    return f"{PROMPT_TEXTS[language].available_ids}{ids}{more}"


def build_regeneration_prompt(base: str, correction: str, previous_answer: str, language: Language = "ja") -> str:
    """Base prompt, correction and the answer it corrects (V-39); its length does not depend on earlier attempts."""
    heading = PROMPT_TEXTS[language].previous_answer
    return f"{base}\n\n{correction}\n\n{heading}\n{fenced(previous_answer)}"


def build_repair_prompt(
    kind: ReportKind,
    report: Mapping[str, Any],
    parts: Mapping[str, Sequence[str]],
    valid_node_ids: Sequence[str],
    nodes: Sequence[Node],
    language: Language = "ja",
) -> str:
    """Return the prompt that asks for new values of the broken parts; it shows no other part of the report."""
    texts = PROMPT_TEXTS[language]
    asked = [line.format(title=kind.title) for line in texts.repair]
    lines = [*asked, "", texts.rules, kind.told[language].rules, "", texts.parts]
    for pointer, errors in parts.items():
        value = value_at(report, pointer)
        shown = {} if value is MISSING else {"value": value}
        lines.append(json_line({"pointer": pointer, "errors": [one_line(error) for error in errors], **shown}))
    if nodes:
        lines += ["", texts.nodes, *(node_line(node) for node in nodes[:IDS_SHOWN])]
    if valid_node_ids:
        lines += ["", ids_line(valid_node_ids, language)]
    return "\n".join(lines)
