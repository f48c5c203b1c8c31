"""Kinds of reports that users define."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.validator.adapters.rules.kind_compiler import compile_kind
from services.validator.domain.errors import KindInvalid
from services.validator.domain.findings import ValidationResult
from services.validator.domain.kind_definition import (
    Check,
    Count,
    Expression,
    ForbiddenWords,
    KindDefinition,
    Reference,
    Required,
    Rule,
    RuleLimits,
)
from services.validator.domain.kinds import ReportKind
from services.validator.domain.runs import Repair, RunOptions
from services.validator.domain.wording import LITERAL
from services.validator.tests.risk_review import DEFINITION, GOOD
from services.validator.tests.scripted_model import ScriptedModel
from services.validator.usecases.run_reports import run_inputs_report


def kind(*checks: Check, schema: object = None, limits: RuleLimits | None = None) -> ReportKind:
    rules = tuple(Rule(f"R{index}", check) for index, check in enumerate(checks))
    text = "" if schema is None else json.dumps(schema)
    return compile_kind(KindDefinition("k", "", text, rules), limits or RuleLimits(seconds=30))


def validate_report(kind: ReportKind, report: object, ids: tuple[str, ...] = ("n1", "n2")) -> ValidationResult:
    return kind.validate(report, ids, LITERAL)


def list_findings(result: ValidationResult) -> list[tuple[str, str, str]]:
    return [(finding.code, finding.pointer, finding.message) for finding in result.findings]


RISK_REVIEW = compile_kind(DEFINITION, RuleLimits(seconds=30))


def test_a_good_report_passes_and_is_not_changed() -> None:
    report = copy.deepcopy(GOOD)
    assert validate_report(RISK_REVIEW, report) == ValidationResult()
    assert report == GOOD


def test_every_rule_finds_its_fault_in_one_pass() -> None:
    report = {
        "level": "middle",
        "code": "X",
        "risks": [
            {"score": 2.0, "nodes": ["n1", "zz"], "title": " "},
            {"title": "必ず起きる", "score": 0.1, "nodes": "n9"},
            "x",
            {"title": "a", "score": 0.1, "nodes": []},
        ],
    }
    assert list_findings(validate_report(RISK_REVIEW, report)) == [
        ("SCHEMA_REQUIRED", "/owner", "owner is required"),
        ("SCHEMA_ENUM", "/level", "level must be one of the allowed values"),
        ("SCHEMA_PATTERN", "/code", "code must match ^R-[0-9]+$"),
        ("SCHEMA_TYPE", "/risks/2", "risks[2] must be of type object"),
        ("TITLE_MISSING", "/risks/0/title", "risks[0].title must be non-empty"),
        ("TITLE_MISSING", "/risks/2/title", "risks[2].title is required"),
        ("NODE_UNKNOWN", "/risks/0/nodes/1", "risks[0].nodes[1] 'zz' is not in the list of allowed values"),
        ("NODE_UNKNOWN", "/risks/1/nodes", "risks[1].nodes 'n9' is not in the list of allowed values"),
        ("NODE_UNKNOWN", "/risks/2/nodes", "risks[2].nodes is required"),
        ("FEW_RISKS", "/risks", "risks must have at most 3 items"),
        ("WORDS", "/risks/1/title", "risks[1].title contains a forbidden phrase (e.g. 絶対, 必ず)"),
        ("SCORES", "/risks/0", "score must be 0..1"),
        ("SCORES", "/risks/2", "score must be 0..1"),
        ("NOTE", "/note", "note is required"),
    ]


def test_findings_carry_the_allowed_values() -> None:
    result = validate_report(RISK_REVIEW, {**GOOD, "level": "x"})
    assert result.findings[0].allowed_values == ("low", "high")
    result = validate_report(kind(Reference("/a", ("x", "y"))), {"a": "z"})
    assert result.findings[0].allowed_values == ("x", "y")


def test_warnings_are_last_and_leave_a_report_valid() -> None:
    report = {name: value for name, value in GOOD.items() if name != "note"}
    result = validate_report(RISK_REVIEW, report)
    assert result.ok
    assert result.warnings == ["note is required"]


@pytest.mark.parametrize("report", [None, [], "x", 5])
def test_a_report_that_is_no_object_is_a_finding(report: object) -> None:
    assert validate_report(RISK_REVIEW, report).errors == ["report must be an object"]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("{", "not JSON"),
        ("[]", "must be an object"),
        ('{"type": "nonsense"}', "/type"),
        ('{"$ref": "https://example.com/schema"}', "start with #"),
        ('{"properties": {"a": {"$ref": "file:///etc/passwd"}}}', "start with #"),
        ('{"items": {"$id": "https://example.com/"}}', r"\$id is not supported"),
        ('{"patternProperties": {"(a+)+$": {}}}', "patternProperties is not supported"),
        ('{"properties": {"a": {"pattern": "(?=a)"}}}', "no RE2 expression"),
        ('{"properties": {"a": {"pattern": "("}}}', "no RE2 expression"),
        ('{"$schema": "http://json-schema.org/draft-07/schema#"}', r"\$schema must be"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_invalid_schemas_are_refused(schema: str, why: str) -> None:
    with pytest.raises(KindInvalid, match=why) as raised:
        compile_kind(KindDefinition("k", json_schema=schema), RuleLimits())
    assert raised.value.violations[0].field == "kind.json_schema"


def test_words_of_a_schema_may_be_names_and_values_of_reports() -> None:
    schema = {"properties": {"$id": {"const": {"patternProperties": 1}}, "$ref": {"type": "string"}}}
    assert validate_report(kind(schema=schema), {"$id": {"patternProperties": 1}, "$ref": "x"}).ok


def test_every_rule_that_does_not_compile_is_named() -> None:
    rules = (Rule("A", Expression("1 +")), Rule("B", Expression("true")), Rule("C", Expression(")")))
    with pytest.raises(KindInvalid) as raised:
        compile_kind(KindDefinition("k", json_schema="[]", rules=rules), RuleLimits())
    fields = [violation.field for violation in raised.value.violations]
    assert fields == ["kind.json_schema", "kind.rules[0].cel.expression", "kind.rules[2].cel.expression"]


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("report.n > 1", ""),
        ("size(report.items) == 3 && report.items.all(item, item in valid_node_ids || item == 'x')", ""),
        ("report.text.matches('^あ+$')", ""),
        ("report.n > 5", "does not hold"),
        ("report.n", "must evaluate to true or false"),
        ("report.nope == 1", "cannot be evaluated: no such member"),
        ("1 / 0 == 1", "cannot be evaluated"),
        ("unknown_function(1)", "cannot be evaluated"),
        ("report.n > 'x'", "cannot be evaluated"),
    ],
)
def test_expressions_are_evaluated(expression: str, why: str) -> None:
    result = validate_report(kind(Expression(expression)), {"n": 3, "items": ["n1", "n2", "x"], "text": "ああ"})
    if not why:
        assert result.ok, result.errors
    else:
        (error,) = result.errors
        assert error.startswith(f"report breaks rule R0: {expression} {why}")


@pytest.mark.parametrize(
    "expression",
    [
        "report.a.all(x, report.a.all(y, report.a.all(z, x + y + z >= 0)))",
        "report.a.all(x, report.a.all(y, report.a.all(z, x + y + z >= 0))) || true",
        "report.a.exists(x, report.a.all(y, report.a.all(z, x + y + z < 0)))",
        "true || report.a.map(x, report.a.map(y, report.a.map(z, z))).size() > 0 && "
        "report.a.map(x, report.a.map(y, report.a.map(z, z))).size() > 0",
    ],
)
def test_an_expression_has_a_limit_of_steps(expression: str) -> None:
    result = validate_report(
        kind(Expression(expression), limits=RuleLimits(steps=2000, seconds=60)), {"a": list(range(60))}
    )
    assert len(result.errors) == 1
    assert "exceeded its limit of steps" in result.errors[0]


def test_an_expression_has_a_limit_of_time() -> None:
    result = validate_report(kind(Expression("true"), limits=RuleLimits(seconds=-1)), {})
    assert any("exceeded its limit of time" in error for error in result.errors)


@pytest.mark.parametrize(
    "check", [Required("/a"), Reference("/a"), Count("/a", 1, None), ForbiddenWords(("",), ("x",))], ids=repr
)
def test_every_rule_has_a_limit_of_time(check: Check) -> None:
    rules = (Rule("R", check, message="the rule's own text"),)
    expired = compile_kind(KindDefinition("k", rules=rules), RuleLimits(seconds=-1))
    finding = validate_report(expired, {"a": "b"}).findings[-1]
    assert (finding.code, finding.pointer) == ("R", "")
    assert finding.message == "report was not checked in full: rule R exceeded its limit of time"


def test_an_expression_cannot_build_huge_values() -> None:
    doubling = " + ".join(["report.s"] * 30)
    result = validate_report(kind(Expression(f"size({doubling}) > 0")), {"s": "x" * 10_000})
    assert "exceeded its limit of size" in result.errors[0]


def test_expressions_see_nothing_but_their_variables() -> None:
    for expression in ("__import__('os') == 1", "report.__class__ == 1", "this.a.__init__ == 1", "os == 1"):
        assert "cannot be evaluated" in validate_report(kind(Expression(expression)), {"a": 1}).errors[0]


def test_patterns_take_linear_time() -> None:
    schema = {"properties": {"a": {"pattern": "^(a+)+$"}}}
    assert not validate_report(kind(schema=schema), {"a": "a" * 5000 + "!"}).ok
    result = validate_report(kind(Expression("report.a.matches('^(a+)+$')")), {"a": "a" * 5000 + "!"})
    assert "does not hold" in result.errors[0]


def test_a_schema_that_explodes_is_cut_off() -> None:
    definitions = {f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(60)}
    schema = {"$ref": "#/$defs/d0", "$defs": {**definitions, "d60": {"type": "object"}}}
    result = validate_report(kind(schema=schema, limits=RuleLimits(steps=5000, seconds=60)), {})
    assert [finding.code for finding in result.findings] == ["SCHEMA_LIMIT"]


def test_a_property_that_the_schema_forbids_must_be_absent() -> None:
    forbidden = kind(schema={"properties": {"a": False}})
    assert list_findings(validate_report(forbidden, {"a": 1})) == [("SCHEMA_FALSE", "/a", "a must be absent")]
    assert validate_report(forbidden, {"b": 1}).ok


@pytest.mark.parametrize(
    ("number", "divisor", "faults"),
    [
        *((0.3, 0.1, []), (19.99, 0.01, []), (3, 1.5, []), (1e300, 0.01, []), (10**30, 10, []), (True, 2, [])),
        *((0.35, 0.1, ["a must be a multiple of 0.1"]), (7, 2, ["a must be a multiple of 2"])),
    ],
)
def test_multiples_are_those_of_decimal_numbers(number: float, divisor: float, faults: list[str]) -> None:
    result = validate_report(kind(schema={"properties": {"a": {"multipleOf": divisor}}}), {"a": number})
    assert [finding.message for finding in result.findings] == faults


@pytest.mark.parametrize("number", [10**400, 1e999])
def test_a_number_that_a_schema_cannot_check_is_a_finding(number: float) -> None:
    result = validate_report(kind(schema={"properties": {"a": {"multipleOf": 0.01}}}), {"a": number})
    assert [finding.code for finding in result.findings] == ["SCHEMA_LIMIT"]


def test_an_expression_names_a_number_that_it_cannot_hold() -> None:
    result = validate_report(kind(Expression("true")), {"a": 2**63})
    assert "a number of more than 64 bits" in result.errors[0]


def test_a_schema_without_end_is_cut_off() -> None:
    result = validate_report(kind(schema={"$ref": "#"}), {})
    assert [finding.code for finding in result.findings] == ["SCHEMA_LIMIT"]


def test_a_reference_to_nowhere_is_a_finding() -> None:
    result = validate_report(kind(schema={"$ref": "#/$defs/missing"}), {})
    assert [finding.code for finding in result.findings] == ["SCHEMA_REFERENCE"]


def test_the_number_of_findings_of_a_rule_is_bounded() -> None:
    result = validate_report(kind(Required("/a/*/x")), {"a": [{}] * 5000})
    assert len(result.errors) == 200


def test_unique_items_follow_the_json_schema_standard() -> None:
    unique = kind(schema={"properties": {"a": {"uniqueItems": True}}})
    assert not validate_report(unique, {"a": [1, 1.0]}).ok
    assert not validate_report(unique, {"a": [{"x": 1, "y": 2}, {"y": 2, "x": 1}]}).ok
    assert validate_report(unique, {"a": [1, "1", True, [1], {"1": 1}]}).ok


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["risks", "title", "nodes", "score", "owner", "note", "a/b~"]), inner, max_size=4
        )
    ),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(report=json_values)
def test_arbitrary_json_never_raises(report: Any) -> None:  # V-77
    before = repr(report)
    result = validate_report(RISK_REVIEW, report)
    assert result.ok is (not result.errors)
    assert repr(report) == before


def test_nesting_deeper_than_the_stack_does_not_raise() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    result = validate_report(compile_kind(DEFINITION, RuleLimits(seconds=30)), {**GOOD, "risks": deep})
    assert not result.ok


async def test_a_registered_kind_is_generated_and_corrected() -> None:
    bad = {**GOOD, "risks": [{"title": "遅延", "score": 0.5, "nodes": ["zz"]}]}
    model = ScriptedModel([bad, GOOD])
    run = await run_inputs_report(RISK_REVIEW, {"題": "移行"}, ["n1"], model, RunOptions(), LITERAL)
    assert (run.ok, run.retry_count) == (True, 1)
    assert run.rendered == json.dumps(GOOD, ensure_ascii=False, indent=2)
    base, second = model.prompts
    for part in (
        "RiskReview",
        "リスクを挙げます。",
        "移行",
        '"n1"',
        "SCORES" if "SCORES" in base else "score must be 0..1",
    ):
        assert part in base
    assert "- risks[0].nodes[0] 'zz' is not in the list of allowed values" in second


async def test_a_registered_kind_is_repaired_in_parts() -> None:
    bad = {**GOOD, "risks": [*GOOD["risks"], {"title": "", "score": 0.5, "nodes": ["n1"]}]}
    fixed = {"title": "漏れ", "score": 0.5, "nodes": ["n1"]}
    model = ScriptedModel([bad, {"repairs": [{"pointer": "/risks/1", "value": fixed}]}])
    options = RunOptions(repair=Repair.PARTIAL)
    run = await run_inputs_report(RISK_REVIEW, {}, ["n1"], model, options, LITERAL)
    assert run.ok
    assert run.report == {**GOOD, "risks": [*GOOD["risks"], fixed]}


async def test_a_step_that_is_no_index_repairs_the_whole_array() -> None:
    steps = kind(Required("/steps/²"))  # str.isdigit() holds for it, int() refuses it
    fixed = {"²": "済"}
    model = ScriptedModel([{"steps": ["済"]}, {"repairs": [{"pointer": "/steps", "value": fixed}]}])
    run = await run_inputs_report(steps, {}, [], model, RunOptions(repair=Repair.PARTIAL), LITERAL)
    assert (run.ok, run.report) == (True, {"steps": fixed})
