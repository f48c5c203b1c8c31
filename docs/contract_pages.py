"""Write the contract reference of the docs site from the protos: a page a package, with rules and policies.

`python -m docs.contract_pages [FOLDER]`; without FOLDER, into `docs/reference/contracts`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from buf.validate import validate_pb2
from google.api import field_behavior_pb2
from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
)

from gateway.contract import format_comment
from hansei.playbook.v1 import rules_pb2

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs/reference/contracts"
_FILE_MESSAGE, _FILE_ENUM, FILE_SERVICE, METHOD, _FIELD, _NESTED, _VALUE = 4, 5, 6, 2, 2, 3, 2
_SCALARS = {number: name.removeprefix("TYPE_").lower() for name, number in FieldDescriptorProto.Type.items()}
_IDEMPOTENCY = {
    "read": "a read",
    "request_id": "once per `request_id`",
    "natural": "a repeated call finds the result of the first",
    "none": "not idempotent",
}
_MAX_RULE = 160
_NAMED_ALTERNATIVES = 4
_DATASET_NAME = f"[{rules_pb2.dataset_name.full_name}]: true"


@dataclass(frozen=True)
class PageSource:
    """A proto file with its comments by path."""

    file: FileDescriptorProto
    comments: dict[tuple[int, ...], str]

    def comment(self, *path: int) -> str:
        """Return the comment before a declaration, on one line."""
        return self.comments.get(path, "")


def render_pages() -> dict[str, str]:
    """Return the text of every page by its file name: an overview and a page for each package."""
    packages: dict[str, list[PageSource]] = {}
    for source in load_sources():
        packages.setdefault(source.file.package, []).append(source)
    return {
        "index.md": _write_overview(packages),
        **{f"{package}.md": _render_page(package, files) for package, files in packages.items()},
    }


@cache
def load_sources() -> tuple[PageSource, ...]:
    """Return every proto file of the contract with its comments."""
    protos = sorted(str(path.relative_to(ROOT / "protos")) for path in (ROOT / "protos").glob("hansei/*/v1/*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "set"
        command = [sys.executable, "-m", "grpc_tools.protoc", "-Iprotos", "-Ithird_party", "--include_source_info"]
        subprocess.run([*command, f"--descriptor_set_out={target}", *protos], cwd=ROOT, check=True, timeout=120)  # noqa: S603  the compiler of this environment
        files = FileDescriptorSet.FromString(target.read_bytes()).file
    return tuple(PageSource(file, _collect_comments(file)) for file in files)


def _collect_comments(file: FileDescriptorProto) -> dict[tuple[int, ...], str]:
    return {
        tuple(location.path): format_comment(location.leading_comments)
        for location in file.source_code_info.location
        if location.leading_comments
    }


def _write_overview(packages: dict[str, list[PageSource]]) -> str:
    lines = [
        "# Contracts",
        "",
        "Services and messages of every package, generated from the protos. Every server also describes its services",
        "to tools such as grpcurl. A line below each method states the policy that the clients of hansei follow:",
        "",
        "- the time after which a call ends (its deadline, if the caller sets none),",
        "- *a read*: changes nothing and can be repeated,",
        "- *once per `request_id`*: a repeat returns the stored response and changes nothing; with other contents it",
        "  fails with ALREADY_EXISTS `REQUEST_ID_REUSED`,",
        "- *a repeated call finds the result of the first*: so it can be repeated,",
        "- *not idempotent*: clients do not repeat a failed call by themselves.",
        "",
        "Fields with *one of* exclude each other. The rule `dataset_name`: 1 to 128 of the characters A-Z, a-z, 0-9,",
        "`_` and `-`.",
        "",
        "| service | description |",
        "|---|---|",
    ]
    for package, sources in sorted(packages.items()):
        for source in sources:
            for number, service in enumerate(source.file.service):
                name = f"{package}.{service.name}"
                what = format_cell(source.comment(FILE_SERVICE, number))
                lines.append(f"| [`{name}`]({package}.md#{_build_anchor(service.name)}) | {what} |")
    return "\n".join(lines) + "\n"


def _render_page(package: str, sources: list[PageSource]) -> str:
    lines = [f"# {package}", ""]
    for source in sources:
        for number in range(len(source.file.service)):
            lines += _render_service(source, number)
    lines += ["## Messages", ""]
    for source in sources:
        for number, message in enumerate(source.file.message_type):
            lines += _render_message(source, message, (_FILE_MESSAGE, number), message.name)
    enums = [(source, number, enum) for source in sources for number, enum in enumerate(source.file.enum_type)]
    if enums:
        lines += ["## Enums", ""]
    for source, number, enum in enums:
        lines += _render_enum(source, enum, (_FILE_ENUM, number))
    return "\n".join(lines).rstrip() + "\n"


def _render_service(source: PageSource, number: int) -> list[str]:
    package, service = source.file.package, source.file.service[number]
    policies = _load_policies()[f"{package}.{service.name}"]
    lines = [f"## {service.name}", "", source.comment(FILE_SERVICE, number), ""]
    for position, method in enumerate(service.method):
        policy = policies[method.name]
        seconds = "no time limit" if policy["timeout_seconds"] is None else f"{policy['timeout_seconds']} s"
        if "longest_seconds" in policy:
            seconds = f"{seconds}, up to {policy['longest_seconds']} s if the caller's deadline is longer"
        facts = f"{seconds}, {_IDEMPOTENCY[policy['idempotency']]}"
        lines += [f"### {method.name}", "", source.comment(FILE_SERVICE, number, METHOD, position), ""]
        lines += [f"{_format_signature(package, method)} · {facts}", ""]
    return lines


def _format_signature(package: str, method: MethodDescriptorProto) -> str:
    sent = ("stream of " if method.client_streaming else "") + _link(package, method.input_type)
    back = ("stream of " if method.server_streaming else "") + _link(package, method.output_type)
    return f"{sent} → {back}"


@cache
def _load_policies() -> dict[str, dict[str, dict[str, Any]]]:
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for path in sorted((ROOT / "protos").glob("hansei/*/v1/*_policy.json")):
        found |= json.loads(path.read_text(encoding="utf-8"))
    return found


def _render_message(source: PageSource, message: DescriptorProto, path: tuple[int, ...], name: str) -> list[str]:
    if message.options.map_entry:
        return []
    lines = [f"### {name}", "", source.comment(*path), ""]
    if message.field:
        lines += ["| field | type | description |", "|---|---|---|"]
        lines += [_format_row(source, message, field, (*path, _FIELD, n)) for n, field in enumerate(message.field)]
        lines.append("")
    for number, nested in enumerate(message.nested_type):
        lines += _render_message(source, nested, (*path, _NESTED, number), f"{name}.{nested.name}")
    return lines


def _format_row(
    source: PageSource, message: DescriptorProto, field: FieldDescriptorProto, path: tuple[int, ...]
) -> str:
    comments = [source.comment(*path)]
    if field_behavior_pb2.REQUIRED in field.options.Extensions[field_behavior_pb2.field_behavior]:
        comments.append("**Required.**")
    if field.HasField("oneof_index") and not field.proto3_optional:
        names = [f"`{other.name}`" for other in message.field if _is_alternative(other, field)]
        comments.append(f"*One of* {', '.join(names) if len(names) <= _NAMED_ALTERNATIVES else 'these fields'}.")
    rules = _format_rules(field)
    if rules:
        comments.append(f"`{rules}`")
    return (
        f"| `{field.name}` | {_format_type(source.file.package, message, field)} | {format_cell(' '.join(comments))} |"
    )


def _is_alternative(other: FieldDescriptorProto, field: FieldDescriptorProto) -> bool:
    return other.HasField("oneof_index") and other.oneof_index == field.oneof_index


def _format_rules(field: FieldDescriptorProto) -> str:
    """Format the validation rules in one line: the messages of rules in CEL, and other rules unless they are long."""
    rules = validate_pb2.FieldRules()
    rules.CopyFrom(field.options.Extensions[validate_pb2.field])
    messages = [rule.message for rule in rules.cel]
    rules.ClearField("cel")
    rules.ClearField("required")
    if rules.ignore == validate_pb2.IGNORE_IF_ZERO_VALUE:
        messages.append("may be empty")
    rules.ClearField("ignore")
    text = text_format.MessageToString(rules, as_one_line=True).replace(_DATASET_NAME, "dataset_name").strip()
    return "; ".join([*messages, *([text] if text and len(text) <= _MAX_RULE else [])])


def _format_type(package: str, message: DescriptorProto, field: FieldDescriptorProto) -> str:
    entries = {f".{package}.{message.name}.{nested.name}": nested for nested in message.nested_type}
    entry = entries.get(field.type_name)
    if entry is not None and entry.options.map_entry:
        key, value = entry.field
        return f"map of {_format_type(package, message, key)} to {_format_type(package, message, value)}"
    type_text = _link(package, field.type_name) if field.type_name else _SCALARS[field.type]
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"repeated {type_text}"
    return f"optional {type_text}" if field.proto3_optional else type_text


def _render_enum(source: PageSource, enum: EnumDescriptorProto, path: tuple[int, ...]) -> list[str]:
    lines = [f"### {enum.name}", "", source.comment(*path), "", "| value | description |", "|---|---|"]
    for number, value in enumerate(enum.value):
        lines.append(f"| `{value.name}` | {format_cell(source.comment(*path, _VALUE, number))} |")
    return [*lines, ""]


def _link(package: str, type_name: str) -> str:
    full = type_name.removeprefix(".")
    if not full.startswith("hansei."):
        return f"`{full}`"
    owner, _, name = full.partition(".v1.")
    owner += ".v1"
    page = "" if owner == package else f"{owner}.md"
    return f"[{name}]({page}#{_build_anchor(name)})"


def _build_anchor(heading: str) -> str:
    """Return the anchor that Markdown gives a heading."""
    return re.sub(r"[^\w-]", "", heading.lower())


def format_cell(text: str) -> str:
    """Return a text for a cell of a table."""
    return text.replace("|", "\\|")


def write_pages(folder: Path) -> None:
    """Replace the pages of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.md"):
        path.unlink()
    for name, text in render_pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]) if sys.argv[1:] else FOLDER)
