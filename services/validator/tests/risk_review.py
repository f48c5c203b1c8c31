"""A kind of report as a user may define it, and a good report of it."""

from __future__ import annotations

import json

from services.validator.domain.findings import Severity
from services.validator.domain.kind_definition import (
    Count,
    Expression,
    ForbiddenWords,
    KindDefinition,
    Reference,
    Required,
    Rule,
)

SCHEMA = {
    "type": "object",
    "required": ["risks", "owner"],
    "properties": {
        "owner": {"type": "string", "minLength": 1},
        "level": {"enum": ["low", "high"]},
        "code": {"type": "string", "pattern": "^R-[0-9]+$"},
        "risks": {"type": "array", "items": {"$ref": "#/$defs/risk"}, "uniqueItems": True},
    },
    "$defs": {"risk": {"type": "object", "required": ["title"], "properties": {"score": {"type": "number"}}}},
}
RULES = (
    Rule("TITLE_MISSING", Required("/risks/*/title")),
    Rule("NODE_UNKNOWN", Reference("/risks/*/nodes")),
    Rule("FEW_RISKS", Count("/risks", 1, 3)),
    Rule("WORDS", ForbiddenWords(("/risks", "/note"), ("絶対", "必ず"))),
    Rule("SCORES", Expression("this.score >= 0.0 && this.score <= 1.0", "/risks/*"), message="score must be 0..1"),
    Rule("NOTE", Required("/note"), Severity.WARNING),
)
DEFINITION = KindDefinition("risk-review", "RiskReview", json.dumps(SCHEMA), RULES, "リスクを挙げます。")
GOOD = {"owner": "佐藤", "risks": [{"title": "遅延", "score": 0.5, "nodes": ["n1"]}], "note": "特になし"}
