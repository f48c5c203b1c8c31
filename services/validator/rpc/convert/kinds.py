"""Conversion between messages and kinds of reports."""

from __future__ import annotations

from chassis.errors import InvalidArgument
from chassis.server.messages import encode
from hansei.validator.v1 import kind_pb2 as pb
from hansei.validator.v1 import report_pb2
from services.validator.domain.findings import Severity
from services.validator.domain.kind_definition import (
    Check,
    Count,
    Expression,
    ForbiddenWords,
    KindDefinition,
    Reference,
    Required,
    Rule,
)
from services.validator.usecases.ports import RegisteredKind


def decode_kind(kind: pb.ReportKind) -> KindDefinition:
    """Return the kind that a request defines."""
    rules = tuple(
        Rule(
            rule.code,
            _decode_check(rule),
            Severity.WARNING if rule.severity == report_pb2.SEVERITY_WARNING else Severity.ERROR,
            rule.message,
        )
        for rule in kind.rules
    )
    return KindDefinition(kind.name, kind.title, kind.json_schema, rules, kind.instructions)


def _decode_check(rule: pb.ReportRule) -> Check:
    match rule.WhichOneof("check"):
        case "required":
            return Required(rule.required.path)
        case "reference":
            return Reference(rule.reference.path, tuple(rule.reference.values))
        case "count":
            most = rule.count.max if rule.count.HasField("max") else None
            return Count(rule.count.path, rule.count.min, most)
        case "wording":
            return ForbiddenWords(tuple(rule.wording.paths), tuple(rule.wording.phrases))
        case "cel":
            return Expression(rule.cel.expression, rule.cel.path)
    raise InvalidArgument(f"rule {rule.code} has no check")


def encode_kind(registered: RegisteredKind) -> pb.ReportKind:
    """Return the message of a registered kind."""
    rules = [_encode_rule(rule) for rule in registered.definition.rules]
    return encode(registered.definition, pb.ReportKind, rules=rules, create_time=registered.created_at)


def _encode_rule(rule: Rule) -> pb.ReportRule:
    match rule.check:
        case Required():
            check: dict[str, object] = {"required": rule.check}
        case Reference():
            check = {"reference": rule.check}
        case Count(path, least, most):
            check = {"count": pb.CountRule(path=path, min=least, max=most)}
        case ForbiddenWords():
            check = {"wording": rule.check}
        case Expression():
            check = {"cel": rule.check}
    return encode(rule, pb.ReportRule, **check)
