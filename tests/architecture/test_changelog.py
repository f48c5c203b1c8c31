"""Compare the table of renamed public names in the changelog with the contract and the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet

from hansei.client.cli import app

ROOT = Path(__file__).parents[2]
PRODUCT = ("chassis", "libs", "services", "gateway", "allinone", "sdk")
CONTRACT_PARTS = {"RPC", "message", "field"}
UNIQUE_PARTS = {*CONTRACT_PARTS, "HTTP", "reason", "setting", "command"}
"""Parts whose old names are long enough to be searched: `read` and `run` of the SDK still have other meanings."""
STILL_WORKING = {"LEADERBOARD_DB"}


def read_rows() -> list[tuple[str, list[str], list[str]]]:
    """Return the rows of the table: the part, the old names and the new names."""
    table = (ROOT / "CHANGELOG.md").read_text().partition("<!-- renamed -->\n")[2].partition("<!-- end -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]
    return [(part, re.findall(r"`([^`]+)`", old), re.findall(r"`([^`]+)`", new)) for part, old, new in rows]


def list_message_names(message: DescriptorProto) -> Iterator[str]:
    """Yield the name of a message, and `Message.field` for each of its fields."""
    yield message.name
    yield from (f"{message.name}.{field.name}" for field in message.field)


@cache
def contract_names() -> frozenset[str]:
    """Return the messages, the fields as `Message.field`, and the methods as `Service.Method` of the contract."""
    names: set[str] = set()
    for sources in (ROOT / "stubs").rglob("sources.binpb"):
        for file in FileDescriptorSet.FromString(sources.read_bytes()).file:
            for message in file.message_type:
                names.update(list_message_names(message))
            for service in file.service:
                names.update(f"{service.name}.{method.name}" for method in service.method)
    return frozenset(names)


@cache
def command_names() -> frozenset[str]:
    """Return the commands of the command line, such as `hansei jobs list`."""
    names: set[str] = set()
    groups = [("hansei", typer.main.get_command(app))]
    while groups:
        path, command = groups.pop()
        names.add(path)
        groups.extend((f"{path} {name}", child) for name, child in getattr(command, "commands", {}).items())
    return frozenset(names)


@cache
def product_code() -> str:
    """Return the Python code of the product, tests excluded."""
    files = (file for folder in PRODUCT for file in (ROOT / folder).rglob("*.py") if "tests" not in file.parts)
    return "\n".join(file.read_text() for file in files)


@cache
def http_paths() -> str:
    """Return the contract, whose `google.api.http` rules have the paths."""
    return "\n".join(file.read_text() for file in (ROOT / "protos").rglob("*.proto"))


def is_present(part: str, name: str) -> bool:
    """Return whether a public name exists."""
    if part in CONTRACT_PARTS:
        return name in contract_names()
    if part == "HTTP":
        method, path = name.split()
        return f'{method.lower()}: "{path}"' in http_paths()
    if part == "reason":
        return f'"{name}"' in product_code()
    if part == "setting":
        return f"`{name}`" in (ROOT / "docs/reference/settings.md").read_text()
    if part == "command":
        return name in command_names()
    return all(re.search(rf"\b{word}\b", product_code()) for word in re.findall(r"\w+", name))


@pytest.mark.parametrize(("part", "name"), [(part, name) for part, _, names in read_rows() for name in names])
def test_each_new_name_exists(part: str, name: str) -> None:
    """Each name in the column "new" is a name of the contract, a reason, a setting, a command or a name in the code."""
    assert is_present(part, name)


@pytest.mark.parametrize(
    ("part", "name"), [(part, name) for part, names, _ in read_rows() if part in UNIQUE_PARTS for name in names]
)
def test_each_old_name_is_gone(part: str, name: str) -> None:
    """No name in the column "old" is left, unless the table states that it still works."""
    assert name in STILL_WORKING or not is_present(part, name)


def test_the_table_has_every_part() -> None:
    """The table is not empty, and names all parts of the public surface."""
    assert {part for part, _, _ in read_rows()} >= UNIQUE_PARTS
