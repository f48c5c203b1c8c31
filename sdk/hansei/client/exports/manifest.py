"""The exports of a project, which `sync` keeps current: `.hansei/exports.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from chassis.files import replace_file
from hansei.client.errors import InvalidArgument, Violation
from hansei.client.exports.kinds import ExportKind
from hansei.client.exports.targets import ExportTarget

MANIFEST = ".hansei/exports.json"
VERSION = 1


def load_targets(project: Path) -> list[ExportTarget]:
    """Return the recorded exports of a project. Raises InvalidArgument with the field that is wrong."""
    path = project / MANIFEST
    if not path.exists():
        return []
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise _build_error("file", f"is not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise _build_error("version", f"must be {VERSION}")
    targets = document.get("targets")
    if not isinstance(targets, list):
        raise _build_error("targets", "must be a list")
    return [_decode_target(target, f"targets[{index}]") for index, target in enumerate(targets)]


def record_target(project: Path, target: ExportTarget) -> None:
    """Add an export to those of a project; it replaces one of the same kind, dataset and file."""
    others = [other for other in load_targets(project) if _get_key(other) != _get_key(target)]
    targets = [
        {"to": entry.kind.value, "dataset": entry.dataset, "file": entry.file, "globs": list(entry.globs)}
        for entry in [*others, target]
    ]
    text = json.dumps({"version": VERSION, "targets": targets}, indent=2) + "\n"
    replace_file(project / MANIFEST, text.encode("utf-8"))


def _get_key(target: ExportTarget) -> tuple[str, str, str]:
    return target.kind, target.dataset, target.file


def _decode_target(target: Any, field: str) -> ExportTarget:
    if not isinstance(target, dict):
        raise _build_error(field, "must be an object")
    if target.get("to") not in list(ExportKind):
        raise _build_error(f"{field}.to", f"must be one of {', '.join(ExportKind)}")
    for name in ("dataset", "file"):
        if not isinstance(target.get(name, ""), str):
            raise _build_error(f"{field}.{name}", "must be a text")
    if not target.get("dataset"):
        raise _build_error(f"{field}.dataset", "is missing")
    globs = target.get("globs", [])
    if not isinstance(globs, list) or not all(isinstance(glob, str) for glob in globs):
        raise _build_error(f"{field}.globs", "must be a list of texts")
    return ExportTarget(ExportKind(target["to"]), target["dataset"], target.get("file", ""), tuple(globs))


def _build_error(field: str, problem: str) -> InvalidArgument:
    return InvalidArgument(
        f"{MANIFEST}: {field} {problem}", reason="EXPORTS_UNREADABLE", violations=[Violation(field, problem)]
    )
