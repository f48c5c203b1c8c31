"""One logging API: product code logs by `chassis.logging`, and a record is an event in plain words with facts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("chassis", "libs", "services", "gateway", "allinone", "sdk")
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
OWNERS = {"chassis/logging.py", "gateway/bulk/adapters/dbos_queue.py", "sdk/hansei/client/outages.py"}
"""The module that sets up logging, the one that sets the level of a library's own logger, and the client's, which logs
to the loggers of its user's program."""


def product_modules() -> Iterator[tuple[str, ast.Module]]:
    for folder in PRODUCT:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if "/tests/" not in name:
                yield name, ast.parse(path.read_text(encoding="utf-8"))


def calls(module: ast.Module) -> Iterator[tuple[ast.Call, str, str]]:
    """Yield calls of attributes of a name: the call, the name, the attribute."""
    for node in ast.walk(module):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attribute)):
                yield node, name, attribute


def test_product_code_takes_its_loggers_from_the_chassis() -> None:
    found = [
        f"{name}:{call.lineno}"
        for name, module in product_modules()
        if name not in OWNERS
        for call, owner, attribute in calls(module)
        if (owner, attribute) == ("logging", "getLogger")
    ]
    assert found == []


def test_a_record_is_an_event_with_keywords() -> None:
    found = [
        f"{name}:{call.lineno}"
        for name, module in product_modules()
        for call, owner, attribute in calls(module)
        if owner.lstrip("_") == "log" and attribute in LEVELS
        if len(call.args) != 1 or isinstance(call.args[0], ast.JoinedStr | ast.BinOp)
    ]
    assert found == []


def test_an_event_formats_nothing() -> None:
    found = [
        f"{name}:{call.lineno}: {event!r}"
        for name, module in product_modules()
        for call, owner, attribute in calls(module)
        if owner.lstrip("_") == "log" and attribute in LEVELS
        for event in [call.args[0].value if isinstance(call.args[0], ast.Constant) else ""]
        if "%" in str(event)
    ]
    assert found == []
