"""Build the wheels `hansei` and `hansei-server` from the folders of this repository.

A wheel installs only packages whose names begin with `hansei`, but the repository imports its folders by their own
names (`services.curator`). So the build copies the folders and renames absolute imports, and strings that are the name
of a module. An ambiguous name fails the build.
"""

from __future__ import annotations

import ast
import re
import shutil
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

ROOT = Path(__file__).resolve().parents[1]

PACKAGES = {
    "allinone": "hansei_server.allinone",
    "buf": "hansei_buf",
    "chassis": "hansei_chassis",
    "gateway": "hansei_server.gateway",
    "libs": "hansei_server.libs",
    "services": "hansei_server.services",
}
"""The packages of the repository that have another name in a wheel."""
ABSENT = ("bench", "examples", "tests", "third_party")
"""Packages of the repository that are in no wheel."""

WHEELS = {
    "hansei": {
        "chassis": "hansei_chassis",
        "examples/trajectories": "hansei/client/cli/recorded",
        "sdk/hansei": "hansei",
        "stubs/buf": "hansei_buf",
        "stubs/hansei": "hansei",
    },
    "hansei-server": {
        "allinone": "hansei_server/allinone",
        "chassis/server": "hansei_chassis/server",
        "config": "hansei_server/config",
        "examples/trajectories": "hansei_server/gateway/console/examples",
        "gateway": "hansei_server/gateway",
        "libs": "hansei_server/libs",
        "services": "hansei_server/services",
    },
}
"""The folders of each wheel, and their paths in the wheel."""
EXCLUDED_FOLDERS = {"hansei": ("chassis/server",), "hansei-server": ()}
EXCLUDED_NAMES = ("tests", "__pycache__", "README.md")

SERVICES = re.findall(r"^  (\w+):$", (ROOT / "deploy/services.yaml").read_text(encoding="utf-8"), re.MULTILINE)
EXTRAS = ("bedrock", "google", "multilingual", "onnx", "sudachi")

_NAMES = "|".join(PACKAGES)
_MODULE = re.compile(rf"({_NAMES})(\.\w+)+")
_MENTION = re.compile(rf"(?<![\w./-])({_MODULE.pattern})")
_BEGINNING = re.compile(rf"(?<![\w./-])({_NAMES})(\.\w+)*\.$")


class AmbiguousNameError(Exception):
    """It is ambiguous whether a string is the name of a module."""


class BuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Copy the folders of a wheel into it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Copy and rename the folders; an editable wheel uses the folders of the repository."""
        if version == "editable":
            return
        tree = self._tree = Path(tempfile.mkdtemp(prefix=self.metadata.name))
        for source, target in list_files(self.metadata.name):
            copy(source, tree / target)
        build_data["force_include"] |= {str(path): path.name for path in tree.iterdir()}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the copies."""
        if version != "editable":
            shutil.rmtree(self._tree)


class MetadataHook(MetadataHookInterface):
    """The version and the dependencies of `hansei-server`, from `pyproject.toml` of the repository."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Depend on the client of the same version, and on the dependencies of all services."""
        document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        project, groups = document["project"], document["dependency-groups"]
        needed = {requirement for service in SERVICES for requirement in read_requirements(groups, service)}
        metadata["version"] = project["version"]
        metadata["dependencies"] = [f"hansei=={project['version']}", *sorted(needed)]
        metadata["optional-dependencies"] = {extra: list(read_requirements(groups, extra)) for extra in EXTRAS}
        for name in ("classifiers", "keywords", "license", "requires-python"):
            metadata[name] = project[name]


def read_requirements(groups: dict[str, Sequence[Any]], name: str) -> Iterator[str]:
    """Yield the requirements of a dependency group and of the groups that it includes."""
    for entry in groups[name]:
        if isinstance(entry, str):
            yield entry
        else:
            yield from read_requirements(groups, entry["include-group"])


def list_files(wheel: str) -> Iterator[tuple[Path, Path]]:
    """Yield the source and the path in the wheel of each file."""
    for folder, target in WHEELS[wheel].items():
        for source in sorted((ROOT / folder).rglob("*")):
            is_excluded = any(source.is_relative_to(ROOT / other) for other in EXCLUDED_FOLDERS[wheel])
            if (
                source.is_file()
                and not is_excluded
                and not set(EXCLUDED_NAMES) & set(source.relative_to(ROOT / folder).parts)
            ):
                yield source, Path(target) / source.relative_to(ROOT / folder)


def copy(source: Path, target: Path) -> None:
    """Copy a file, and rename the modules in Python code. Raises AmbiguousNameError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix not in (".py", ".pyi"):
        shutil.copyfile(source, target)
        return
    try:
        target.write_bytes(rename_modules(source.read_bytes()))
    except AmbiguousNameError as error:
        raise AmbiguousNameError(f"{source.relative_to(ROOT)}:{error}") from None


def rename_modules(source: bytes) -> bytes:
    """Return Python source with the module names of the wheel and the same lines. Raises AmbiguousNameError."""
    lines = source.splitlines(keepends=True)
    for line, column, old, new in sorted(_find_edits(ast.parse(source), lines), reverse=True):
        text = lines[line - 1]
        assert text[column:].startswith(old.encode())
        lines[line - 1] = text[:column] + new.encode() + text[column + len(old.encode()) :]
    return b"".join(lines)


Edit = tuple[int, int, str, str]
"""Line, column in bytes, the old text and the new."""


def _find_edits(tree: ast.Module, lines: Sequence[bytes]) -> Iterator[Edit]:
    docstrings = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    parts_of_fstrings = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _edit_import(alias)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from _edit_import_from(node, lines)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield from _rename_module_in_string(node, lines, id(node) in parts_of_fstrings)
        elif isinstance(node, ast.List | ast.Tuple):
            _refuse_programs(node.elts)


def _edit_import(alias: ast.alias) -> Iterator[Edit]:
    first, _, rest = alias.name.partition(".")
    _refuse_absent(first, alias)
    if first not in PACKAGES:
        return
    if rest and not alias.asname:
        raise AmbiguousNameError(f"{alias.lineno}: `import {alias.name}` binds `{first}`: import it `as` a name")
    new = PACKAGES[first] if alias.asname else f"{PACKAGES[first]} as {first}"
    yield alias.lineno, alias.col_offset, first, new


def _edit_import_from(node: ast.ImportFrom, lines: Sequence[bytes]) -> Iterator[Edit]:
    first = str(node.module).partition(".")[0]
    _refuse_absent(first, node)
    if first not in PACKAGES:
        return
    match = re.match(rb"from\s+" + first.encode() + rb"\b", lines[node.lineno - 1][node.col_offset :])
    if not match:
        raise AmbiguousNameError(f"{node.lineno}: `from` and `{first}` are on different lines")
    yield node.lineno, node.col_offset + match.end() - len(first), first, PACKAGES[first]


def _refuse_absent(first: str, node: ast.alias | ast.ImportFrom) -> None:
    if first in ABSENT:
        raise AmbiguousNameError(f"{node.lineno}: no wheel contains the package `{first}`")


def _refuse_programs(elements: Sequence[ast.expr]) -> None:
    """Refuse `-m gateway`, which is ambiguous: `gateway` is a package and a service."""
    values = [element.value if isinstance(element, ast.Constant) else None for element in elements]
    for line, (option, name) in zip(elements, pairwise(values), strict=False):
        if option == "-m" and name in PACKAGES:
            raise AmbiguousNameError(f"{line.lineno}: `-m {name}` may be the name of a module")


def _rename_module_in_string(node: ast.Constant, lines: Sequence[bytes], formatted: bool) -> Iterator[Edit]:
    """Rename a string that is the name of a module or of its attribute; refuse a text that contains one."""
    text = str(node.value)
    if not formatted and _MODULE.fullmatch(text) and _exists(text):
        first = text.partition(".")[0]
        literal = lines[node.lineno - 1][node.col_offset : node.end_col_offset]
        if node.lineno != node.end_lineno or literal[1:-1] != text.encode():
            raise AmbiguousNameError(f"{node.lineno}: write {text!r} as one plain string")
        yield node.lineno, node.col_offset + 1, first, PACKAGES[first]
        return
    beginning = _BEGINNING.search(text) if formatted else None
    mentions = [mention for mention, *_ in _MENTION.findall(text) if _exists(mention)]
    if beginning or mentions:
        raise AmbiguousNameError(
            f"{node.lineno}: {text!r} may contain a module name: make it relative or a plain string"
        )


def _exists(name: str) -> bool:
    """Return whether a dotted name is that of a module of the repository, or of its attribute."""
    root = ROOT / "stubs" if name.startswith("buf.") else ROOT
    path = root.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file() or path.parent.with_suffix(".py").is_file()
