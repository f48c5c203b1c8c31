"""Compiles the definition of a kind into a kind that can check, correct and render reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

from chassis.errors import Violation as FieldViolation
from libs.prompts.language import Language
from services.validator.adapters.rules.budget import RuleBudget, RuleTooExpensive
from services.validator.adapters.rules.cel import CelExpression, ExpressionInvalid, to_cel
from services.validator.adapters.rules.json_schema import CompiledSchema, SchemaInvalid
from services.validator.domain.errors import KindInvalid
from services.validator.domain.findings import Finding, Severity, ValidationResult
from services.validator.domain.kind_definition import (
    Count,
    Expression,
    ForbiddenWords,
    KindDefinition,
    Reference,
    Required,
    Rule,
    RuleLimits,
)
from services.validator.domain.kind_rules import (
    MAX_FINDINGS_PER_RULE,
    RuleInput,
    RuleViolation,
    build_finding,
    find_violations,
)
from services.validator.domain.kinds import KindInstructions, ReportKind
from services.validator.domain.pointers import MISSING, find_matches
from services.validator.domain.wording import PhraseFinders
from services.validator.prompts.texts import RULE_TEXTS, RuleTexts

ANY_OBJECT = '{"type": "object"}'


def compile_kind(definition: KindDefinition, limits: RuleLimits) -> ReportKind:
    """Return the kind. Raises KindInvalid with the fault of the schema and every rule that does not compile."""
    faults: list[FieldViolation] = []
    schema = _compile_schema(definition.json_schema, faults)
    expressions = _compile_expressions(definition.rules, faults)
    if faults:
        details = "; ".join(f"{fault.field}: {fault.description}" for fault in faults)
        raise KindInvalid(f"report kind '{definition.name}' cannot be used: {details}", violations=faults)
    compiled = _CompiledRules(definition.rules, schema, expressions, limits)
    title = definition.title or definition.name
    return ReportKind(
        definition.name,
        title,
        compiled.validate,
        {language: _build_kind_instructions(definition, language) for language in RULE_TEXTS},
        render,
        takes_long=True,
    )


def _compile_schema(text: str, faults: list[FieldViolation]) -> CompiledSchema:
    try:
        return CompiledSchema(text or ANY_OBJECT)
    except SchemaInvalid as error:
        faults.append(FieldViolation("kind.json_schema", str(error), "SCHEMA"))
        return CompiledSchema(ANY_OBJECT)


def _compile_expressions(rules: Sequence[Rule], faults: list[FieldViolation]) -> Mapping[str, CelExpression]:
    expressions: dict[str, CelExpression] = {}
    for index, rule in enumerate(rules):
        if not isinstance(rule.check, Expression):
            continue
        text = rule.check.expression
        try:
            expressions[text] = CelExpression(text)
        except ExpressionInvalid as error:
            faults.append(FieldViolation(f"kind.rules[{index}].cel.expression", str(error), rule.code))
    return expressions


@dataclass(frozen=True, slots=True)
class _CompiledRules:
    """Schema and rules of one kind."""

    rules: Sequence[Rule]
    schema: CompiledSchema
    expressions: Mapping[str, CelExpression]
    limits: RuleLimits

    def validate(self, report: object, valid_node_ids: Sequence[str], words: PhraseFinders) -> ValidationResult:
        """Return the findings of the schema, then of each rule, errors before warnings. Never raises."""
        if not isinstance(report, dict):
            return ValidationResult((Finding("REPORT_NOT_OBJECT", "report must be an object", ""),))
        found = self.schema.list_findings(report, RuleBudget(self.limits))
        node_ids = [item for item in valid_node_ids if isinstance(item, str)]
        checked = RuleInput(report, node_ids, words, lambda: RuleBudget(self.limits).check_time)
        variables = cache(lambda: _build_variables(checked))
        for rule in self.rules:
            broken = self._find_violations(rule, checked, variables)
            found.extend(build_finding(rule, violation) for violation in islice(broken, MAX_FINDINGS_PER_RULE))
        errors = [finding for finding in found if finding.severity is Severity.ERROR]
        return ValidationResult((*errors, *(finding for finding in found if finding.severity is Severity.WARNING)))

    def _find_violations(
        self, rule: Rule, checked: RuleInput, variables: Callable[[], dict[str, Any] | None]
    ) -> Iterator[RuleViolation]:
        if not isinstance(rule.check, Expression):
            try:
                yield from find_violations(rule.check, checked)
            except RuleTooExpensive as error:
                problem = f"was not checked in full: rule {rule.code} exceeded its limit of {error}"
                yield RuleViolation("", problem, is_limit=True)
            return
        expression, shared = self.expressions[rule.check.expression], variables()
        if shared is None:
            yield RuleViolation("", f"is nested too deeply, or has a number of more than 64 bits, for rule {rule.code}")
            return
        budget = RuleBudget(self.limits)  # the conversion of the report is not the work of one rule
        for pointer, value in find_matches(checked.report, rule.check.path):
            if value is MISSING:
                continue
            this = shared["report"] if value is checked.report else to_cel(value)
            reason = expression.find_failure({**shared, "this": this}, budget)
            if reason:
                requirement = f"breaks rule {rule.code}: {rule.check.expression} {reason}"
                yield RuleViolation(pointer, requirement, is_limit=budget.spent)
            if budget.spent:
                return


def _build_variables(checked: RuleInput) -> dict[str, Any] | None:
    """Return the variables of expressions; None for a report that CEL cannot hold."""
    try:
        return {"report": to_cel(checked.report), "valid_node_ids": to_cel(list(checked.valid_node_ids))}
    except (RecursionError, ValueError):
        return None


def _build_kind_instructions(definition: KindDefinition, language: Language) -> KindInstructions:
    lines = [definition.instructions] if definition.instructions else []
    lines += [f"- {_describe_rule(rule, RULE_TEXTS[language])}" for rule in definition.rules]
    return KindInstructions(definition.json_schema or ANY_OBJECT, "\n".join(lines))


def _describe_rule(rule: Rule, texts: RuleTexts) -> str:
    match rule.check:
        case Required(path):
            text = texts.required.format(path=path)
        case Reference(path, values):
            text = texts.reference.format(path=path, allowed=_format_values(values) if values else texts.known_ids)
        case Count(path, least, most):
            text = (texts.at_least if most is None else texts.between).format(path=path, least=least, most=most)
        case ForbiddenWords(paths, phrases):
            text = texts.forbidden.format(paths=", ".join(paths), phrases=_format_values(phrases))
        case Expression(expression, path):
            quoted = json.dumps(expression, ensure_ascii=False)
            text = texts.expression.format(path=path or texts.whole, expression=quoted)
    return f"{text} {rule.message}".rstrip()


def _format_values(values: Sequence[str]) -> str:
    return json.dumps(values[:20], ensure_ascii=False)


def render(report: Mapping[str, Any]) -> str:
    """Return a valid report of a registered kind as indented JSON."""
    return json.dumps(report, ensure_ascii=False, indent=2)
