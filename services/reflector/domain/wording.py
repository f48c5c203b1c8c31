"""Writes the lesson of a finding in plain sentences. The same kind of error always gets the same words.

`wording_en.yaml` and `wording_ja.yaml` hold the texts; values are inserted once and never used as a template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from libs.prompts.language import Language
from services.reflector.domain.attribution import Candidate, Sign
from services.reflector.domain.causes import Cause, classify_cause
from services.reflector.domain.findings import FindingKind, TrajectoryFinding
from services.reflector.domain.reflection import Attribution, BlameCandidate, Insight
from services.reflector.domain.repairs import ArgumentChange, FailureRecovery

MAX_LESSON_CHARS = 2_000
"""Maximum characters of each text of a lesson."""
_MAX_CHANGES = 3

PITFALLS = "troubleshooting_and_pitfalls"
STRATEGIES = "strategies_and_hard_rules"
_SECTION: Mapping[FindingKind, str] = {
    "tool_error": PITFALLS,
    "trajectory_error": PITFALLS,
    "repeated_call": STRATEGIES,
    "contradicted_result": PITFALLS,
    "contradicted_claim": STRATEGIES,
    "unverified_answer": STRATEGIES,
    "refusal": STRATEGIES,
    "contrast": STRATEGIES,
}


@dataclass(frozen=True, slots=True)
class LessonText:
    """The five texts of R-03 with `{name}` for the facts of the finding."""

    reasoning: str
    error_identification: str
    root_cause_analysis: str
    correct_approach: str
    key_insight: str


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice about a cause: why such calls fail, and a precaution before the call (an imperative without full stop)."""

    why: str
    do: str


@dataclass(frozen=True, slots=True)
class LanguageTexts:
    """All texts of one language."""

    lessons: Mapping[str, LessonText]
    """The texts by finding kind; a variant has the key `<kind>.<variant>`."""
    advice: Mapping[Cause, Advice]
    outcome_success: str
    outcome_failure: str
    list_separator: str
    changed: str
    """A difference of the working call: `{argument}`, `{before}`, `{after}`."""
    changed_text: str
    unchanged: str
    operations_between: str
    caution: str
    """Added to a repair in a trajectory that failed all the same."""
    blame: Mapping[Sign | None, str]
    """The reason why a step is blamed, by its leading sign."""


@cache
def load_wording(language: Language) -> LanguageTexts:
    """Return the texts of a language."""
    texts = yaml.safe_load(Path(__file__).with_name(f"wording_{language}.yaml").read_text(encoding="utf-8"))
    texts["lessons"] = {variant: LessonText(**lesson) for variant, lesson in texts["lessons"].items()}
    texts["advice"] = {cause: Advice(**advice) for cause, advice in texts["advice"].items()}
    return LanguageTexts(**texts)


def write_lesson(finding: TrajectoryFinding, wording: LanguageTexts) -> Insight:
    """Return the lesson of `finding` in the words of `wording`."""
    advice = wording.advice[classify_cause(finding.facts.get("kind", ""))]
    values = {
        **finding.facts,
        "outcome": wording.outcome_success if finding.is_success else wording.outcome_failure,
        "why": advice.why,
        "do": advice.do,
        "repair": _describe_repair(finding.repair, wording),
        "caution": "" if finding.is_success else wording.caution,
    }
    texts = wording.lessons[_choose_variant(finding)]
    lesson = {name: _fill(getattr(texts, name), values) for name in LessonText.__slots__}
    return Insight(**lesson, steps=finding.steps, section=_SECTION[finding.kind])


def write_attribution(ranked: Sequence[tuple[Candidate, float]], wording: LanguageTexts) -> Attribution:
    """Return the first of the candidates as the blamed one, with its strongest sign as the reason, and the others."""
    first, *others = (
        BlameCandidate(
            step=candidate.step.index,
            agent=candidate.step.speaker,
            reason=wording.blame[candidate.leading_sign],
            probability=probability,
        )
        for candidate, probability in ranked
    )
    return Attribution(**first.model_dump(), alternatives=tuple(others))


def _fill(template: str, values: Mapping[str, str]) -> str:
    """Return the text with the untrusted values inserted, printable and at most `MAX_LESSON_CHARS` long."""
    text = template.format_map(values)[:MAX_LESSON_CHARS].strip()
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)


def _choose_variant(finding: TrajectoryFinding) -> str:
    facts = finding.facts
    match finding.kind:
        case "tool_error":
            return "tool_error.repaired" if finding.repair is not None else "tool_error"
        case "unverified_answer":
            return "unverified_answer.values" if facts["values"] else "unverified_answer"
        case "contrast" if not facts["worked_tool"]:
            return "contrast.extra"
        case "contrast":
            return "contrast.changed" if facts["failed_tool"] == facts["worked_tool"] else "contrast.missed"
        case kind:
            return kind


def _describe_repair(repair: FailureRecovery | None, wording: LanguageTexts) -> str:
    if repair is None:
        return ""
    parts = [_describe_change(change, wording) for change in repair.changes[:_MAX_CHANGES]] or [wording.unchanged]
    if repair.operations_between:
        parts.append(wording.operations_between.format_map({"tools": _join_names(repair.operations_between, wording)}))
    return wording.list_separator.join(parts)


def _describe_change(change: ArgumentChange, wording: LanguageTexts) -> str:
    template = wording.changed if change.argument else wording.changed_text
    return template.format_map({"argument": change.argument, "before": change.before, "after": change.after})


def _join_names(names: Sequence[str], wording: LanguageTexts) -> str:
    return wording.list_separator.join(f"`{name}`" for name in names)
