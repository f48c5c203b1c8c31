"""Kinds of reports as protobuf messages."""

from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp

from chassis.errors import InvalidArgument
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


def definition_of(kind: pb.ReportKind) -> KindDefinition:
    """The kind a request defines."""
    rules = tuple(
        Rule(
            rule.code,
            _check_of(rule),
            Severity.WARNING if rule.severity == report_pb2.SEVERITY_WARNING else Severity.ERROR,
            rule.message,
        )
        for rule in kind.rules
    )
    return KindDefinition(kind.name, kind.title, kind.json_schema, rules, kind.instructions)


def _check_of(rule: pb.ReportRule) -> Check:
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
    raise InvalidArgument(f"rule {rule.code} checks nothing")


def kind_message(registered: RegisteredKind) -> pb.ReportKind:
    """A registered kind on the wire."""
    definition = registered.definition
    created = Timestamp()
    created.FromDatetime(registered.created_at)
    return pb.ReportKind(
        name=definition.name,
        title=definition.title,
        json_schema=definition.json_schema,
        rules=[_rule_message(rule) for rule in definition.rules],
        instructions=definition.instructions,
        create_time=created,
    )


def _rule_message(rule: Rule) -> pb.ReportRule:
    warning = rule.severity is Severity.WARNING
    message = pb.ReportRule(
        code=rule.code,
        severity=report_pb2.SEVERITY_WARNING if warning else report_pb2.SEVERITY_ERROR,
        message=rule.message,
    )
    match rule.check:
        case Required(path):
            message.required.path = path
        case Reference(path, values):
            message.reference.CopyFrom(pb.ReferenceRule(path=path, values=values))
        case Count(path, least, most):
            message.count.CopyFrom(pb.CountRule(path=path, min=least, max=most))
        case ForbiddenWords(paths, phrases):
            message.wording.CopyFrom(pb.WordingRule(paths=paths, phrases=phrases))
        case Expression(expression, path):
            message.cel.CopyFrom(pb.CelRule(expression=expression, path=path))
    return message
