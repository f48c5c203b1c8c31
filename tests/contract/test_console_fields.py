"""Hold the console to the contract: a rename of a field, value or path there must not break a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor

from gateway.http.app import ServiceStatus
from gateway.http.bindings import list_bindings
from gateway.http.gateway_facts import GatewayFacts
from tests.contract import contracts

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "gateway/console/page/js"
OWN_PATHS = {("get", "/v1/services"), ("get", "/v1/about")}
"""Endpoints of the gateway that are no methods of the contract."""
OWN_PATTERNS = {
    ("pages/trace.js", "lessons"): "the page adds the lessons and the error to a response",
}
"""Patterns that take a value of the page, by file and one of their names, with the reason."""

_COMMENT = re.compile(r"/\*.*?\*/|(?<![:\"'`])//[^\n]*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_PATTERN = re.compile(r"\{([^{}]*)\}(?=\s*(?:\)|,[^()]*\))?\s*(?:=>|=\s|\)\s*\{))")
_ENTRY = re.compile(r"(?:\.\.\.\w+|(\w+)(?:\s*:\s*\w+)?(?:\s*=\s*[^,]+)?)")
_SNAKE = re.compile(r"\b[a-z]+(?:_[a-z0-9]+)+\b")
_CONSTANT = re.compile(r'"([A-Z]+(?:_[A-Z0-9]+)+_?)"')
_CALL = re.compile(r"(get|post|put|delete)Json\(\s*(`[^`]*`|\"[^\"]*\"|addressDataset\(dataset\))")
_HELPERS = {"addressDataset": "/v1/playbooks/{}", "addressTrajectory": "/v1/playbooks/{}/trajectories/{}"}


def list_scripts() -> list[Path]:
    """Return the scripts of the console without its catalogues of texts."""
    return [path for path in sorted(SCRIPTS.rglob("*.js")) if path.parent.name != "texts"]


@cache
def collect_messages() -> dict[str, frozenset[str]]:
    """Return the fields of every message that a method of the contract takes or returns, and of the gateway's own."""
    found = {model.__name__: frozenset(model.model_fields) for model in (GatewayFacts, ServiceStatus)}

    def visit(message: Descriptor) -> None:
        if message.full_name not in found:
            found[message.full_name] = frozenset(field.name for field in message.fields)
            for field in message.fields:
                if field.message_type is not None:
                    visit(field.message_type)

    for method in contracts.methods():
        visit(method.input_type)
        visit(method.output_type)
    return found


def list_patterns(code: str) -> Iterator[list[str]]:
    """Yield the names of each destructuring pattern that has a name in snake case, so reads a message."""
    for pattern in _PATTERN.finditer(_STRING.sub('""', code)):
        entries = [_ENTRY.fullmatch(entry.strip()) for entry in pattern[1].split(",") if entry.strip()]
        names = [entry[1] for entry in entries if entry is not None and entry[1]]
        if all(entries) and any(_SNAKE.fullmatch(name) for name in names):
            yield names


def test_fields_that_the_console_reads_are_fields_of_the_contract() -> None:
    fields = frozenset().union(*collect_messages().values())
    unknown = [
        f"{path.relative_to(SCRIPTS)}: {name}"
        for path in list_scripts()
        for name in _SNAKE.findall(_STRING.sub("", _COMMENT.sub("", path.read_text(encoding="utf-8"))))
        if name not in fields
    ]
    assert not unknown, "\n".join(unknown)


def test_fields_that_are_read_together_are_fields_of_one_message() -> None:
    messages = collect_messages().values()
    patterns = [
        (path.relative_to(SCRIPTS).as_posix(), names)
        for path in list_scripts()
        for names in list_patterns(_COMMENT.sub("", path.read_text(encoding="utf-8")))
    ]
    unknown = [
        f"{file}: {', '.join(names)}"
        for file, names in patterns
        if not any(set(names) <= fields for fields in messages)
        and not any((file, name) in OWN_PATTERNS for name in names)
    ]
    assert len(patterns) > 50
    assert not unknown, "\n".join(unknown)


def test_constants_of_the_console_are_values_of_the_contract() -> None:
    values = set()
    for file in (ROOT / "protos").glob("hansei/*/v1/*.proto"):
        values |= set(re.findall(r"^\s+([A-Z][A-Z0-9_]+) = \d+", file.read_text(encoding="utf-8"), re.MULTILINE))
    reasons = "\n".join(
        file.read_text(encoding="utf-8")
        for folder in ("chassis", "services", "gateway")
        for file in (ROOT / folder).rglob("*.py")
    )
    unknown = [
        f"{path.relative_to(SCRIPTS)}: {name}"
        for path in list_scripts()
        for name in _CONSTANT.findall(path.read_text(encoding="utf-8"))
        if not any(value.startswith(name) for value in values) and f'"{name}"' not in reasons
    ]
    assert not unknown, "\n".join(unknown)


def list_calls() -> list[tuple[str, str]]:
    """Return verb and path of each call of the endpoints, with `{}` for a variable."""
    found = []
    for verb, written in _CALL.findall((SCRIPTS / "endpoints.js").read_text(encoding="utf-8")):
        path = written.strip('`"').split("(")[0] if written.startswith("address") else written.strip('`"')
        for helper, prefix in _HELPERS.items():
            path = re.sub(rf"(\$\{{)?{helper}(\([^)]*\)\}})?", prefix, path)
        path = path.replace("${addressExecution(id)}", "/v1/executions/{}")
        found.append((verb, re.sub(r"\$\{[^}]*\}", "{}", path)))
    return found


def test_paths_that_the_console_calls_exist() -> None:
    contract = list_bindings(contracts.methods())
    served = {(binding.verb.lower(), re.sub(r"\{[^}]*\}", "{}", binding.path)) for binding in contract} | OWN_PATHS
    calls = list_calls()
    assert len(calls) > 40
    assert [call for call in calls if call not in served] == []


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("const { bullet_id: id, before } = change;", [["bullet_id", "before"]]),
        ("rows.map(({ job_id, dead }) => dead)", [["job_id", "dead"]]),
        ("function f({ title, text }) {", []),
    ],
)
def test_patterns_are_found(code: str, names: list[list[str]]) -> None:
    assert list(list_patterns(code)) == names
