"""The prompts of a run: the base prompt, the request to correct a report, and the prompt that repairs parts of it.

Text from outside (dashboards, ids, titles, wishes, earlier answers) only ever appears as JSON on one line or inside a
fence it cannot close, so that no input can change the instructions of the prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from libs.prompts.language import Language
from services.validator.domain.dashboard import Brief, Node
from services.validator.domain.kinds import ReportKind
from services.validator.domain.pointers import MISSING, find_value
from services.validator.domain.quoting import encode_to_line, escape_to_line, fence_text, format_id
from services.validator.prompts.texts import PROMPT_TEXTS

IDS_SHOWN = 20
ERRORS_SHOWN = 200


def build_base_prompt(
    kind: ReportKind, brief: Brief, nodes: Sequence[Node], focus: Node | None, language: Language = "ja"
) -> str:
    """Return the prompt for a report of the kind about a dashboard (V-32)."""
    texts = PROMPT_TEXTS[language]
    lines = [*_describe_task(kind, language), "", texts.nodes]
    lines += [encode_node(node) for node in nodes] or [texts.no_nodes]
    lines += ["", texts.inputs, f"dashboard: {encode_to_line(brief.dashboard)}"]
    if focus is not None:
        lines.append(f"focusNode: {encode_node(focus)}")
    if brief.user_intent is not None:
        lines.append(f"userIntent: {encode_to_line(brief.user_intent)}")
    if brief.constraints:
        lines.append(f"constraints: {encode_to_line(list(brief.constraints))}")
    return "\n".join(lines)


def build_inputs_prompt(
    kind: ReportKind, inputs: object, valid_node_ids: Sequence[str], language: Language = "ja"
) -> str:
    """Return the prompt for a report of a registered kind about any inputs."""
    texts = PROMPT_TEXTS[language]
    lines = [*_describe_task(kind, language), "", texts.known_ids, encode_to_line(list(valid_node_ids))]
    return "\n".join([*lines, "", texts.inputs, encode_to_line(inputs)])


def _describe_task(kind: ReportKind, language: Language) -> list[str]:
    texts, instructions = PROMPT_TEXTS[language], kind.instructions[language]
    return [
        texts.task.format(title=kind.title),
        "",
        texts.shape,
        instructions.shape,
        "",
        texts.rules,
        instructions.rules,
    ]


def encode_node(node: Node) -> str:
    """Return a node as JSON on one line."""
    return encode_to_line({"id": node.id, "title": node.title, "status": node.status})


def build_correction_prompt(
    errors: Sequence[str], valid_node_ids: Sequence[str] | None = None, language: Language = "ja"
) -> str:
    """Return the part of a prompt with the errors, at most `ERRORS_SHOWN`, and the valid ids (V-30)."""
    texts = PROMPT_TEXTS[language]
    lines = [texts.correction, *(f"- {escape_to_line(error)}" for error in errors[:ERRORS_SHOWN])]
    if len(errors) > ERRORS_SHOWN:
        lines.append(texts.more_errors.format(count=len(errors) - ERRORS_SHOWN))
    if valid_node_ids:
        lines.append(list_ids(valid_node_ids, language))
    return "\n".join(lines)


def list_ids(valid_node_ids: Sequence[str], language: Language) -> str:
    """Return the first `IDS_SHOWN` ids on one line."""
    more = " ..." if len(valid_node_ids) > IDS_SHOWN else ""
    ids = ", ".join(format_id(node_id) for node_id in valid_node_ids[:IDS_SHOWN])
    return f"{PROMPT_TEXTS[language].available_ids}{ids}{more}"


def build_regeneration_prompt(base: str, correction: str, previous_answer: str, language: Language = "ja") -> str:
    """Return base prompt, correction and the corrected answer (V-39); earlier attempts do not add to its length."""
    heading = PROMPT_TEXTS[language].previous_answer
    return f"{base}\n\n{correction}\n\n{heading}\n{fence_text(previous_answer)}"


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
    task = [line.format(title=kind.title) for line in texts.repair]
    lines = [*task, "", texts.rules, kind.instructions[language].rules, "", texts.parts]
    for pointer, errors in parts.items():
        value = find_value(report, pointer)
        part = {"pointer": pointer, "errors": [escape_to_line(error) for error in errors]}
        lines.append(encode_to_line(part if value is MISSING else {**part, "value": value}))
    if nodes:
        lines += ["", texts.nodes, *(encode_node(node) for node in nodes[:IDS_SHOWN])]
    if valid_node_ids:
        lines += ["", list_ids(valid_node_ids, language)]
    return "\n".join(lines)
