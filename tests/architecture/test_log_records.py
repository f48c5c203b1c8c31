"""One logging API: product code logs by `chassis.logging`, and a record is an event in plain words with facts."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("chassis", "libs", "services", "gateway", "allinone", "sdk")
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
OWNERS = {"chassis/logging.py", "gateway/bulk/adapters/dbos_queue.py", "sdk/hansei/client/outages.py"}
"""The module that sets up logging, the one that sets the level of a library's own logger, and the client's, which logs
to the loggers of its user's program."""


@cache
def product_calls() -> list[tuple[str, ast.Call, str, str]]:
    """Return the calls of attributes of a name in all modules: the file, the call, the name, the attribute."""
    found = []
    for folder in PRODUCT:
        for path in sorted((ROOT / folder).rglob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            if "/tests/" in file:
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                match node:
                    case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attribute)):
                        found.append((file, node, name, attribute))
    return found


def test_product_code_takes_its_loggers_from_the_chassis() -> None:
    found = [
        f"{name}:{call.lineno}"
        for name, call, owner, attribute in product_calls()
        if name not in OWNERS
        if (owner, attribute) == ("logging", "getLogger")
    ]
    assert found == []


def test_a_record_is_an_event_with_keywords() -> None:
    found = [
        f"{name}:{call.lineno}"
        for name, call, owner, attribute in product_calls()
        if owner.lstrip("_") == "log" and attribute in LEVELS
        if len(call.args) != 1 or isinstance(call.args[0], ast.JoinedStr | ast.BinOp)
    ]
    assert found == []


def test_an_event_formats_nothing() -> None:
    found = [
        f"{name}:{call.lineno}: {event!r}"
        for name, call, owner, attribute in product_calls()
        if owner.lstrip("_") == "log" and attribute in LEVELS
        for event in [call.args[0].value if isinstance(call.args[0], ast.Constant) else ""]
        if "%" in str(event)
    ]
    assert found == []
