"""Add the hooks of hansei to the settings file of an agent, and remove them: other entries stay as they are."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chassis.files import replace_file

Handlers = Mapping[str, dict[str, Any]]
"""The entry of each event, as the agent expects it in the list of the event."""

BACKUP_SUFFIX = ".before-hansei"
_OWN_COMMAND = re.compile(r"""(^|[/\\\s"'])hansei(\.exe)?["']?\s+hook\s+(claude|codex|cursor)\b""")
_OWN_URL = "/v1/hooks/claude-code"
_INDENT = re.compile(r'^([ \t]+)"', re.MULTILINE)


class UnreadableSettings(Exception):
    """The settings file has an unexpected form and was not changed; the message names file and rule."""


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """A change of a settings file: whether it was needed, and the copy of the file before it."""

    file: Path
    is_changed: bool
    backup: Path | None = None


def install(file: Path, handlers: Handlers, base: Mapping[str, Any]) -> SettingsChange:
    """Write the handlers into a settings file in place of earlier ones. `base` has the fields of a new file.

    Raises UnreadableSettings.
    """
    settings, text = _load(file)
    others = _remove_own(file, settings)
    has_own = others != settings
    settings = {**others, **{name: value for name, value in base.items() if name not in others}}
    hooks = settings.setdefault("hooks", {})
    for event, handler in handlers.items():
        hooks.setdefault(event, []).append(handler)
    return _store(file, text, settings, has_own=has_own)


def uninstall(file: Path, base: Mapping[str, Any]) -> SettingsChange:
    """Remove the handlers, and the file if it then has nothing but `base`. Raises UnreadableSettings."""
    settings, text = _load(file)
    remaining = _remove_own(file, settings)
    if remaining == settings:
        return SettingsChange(file, is_changed=False)
    if not remaining or remaining == base:
        file.unlink()
        return SettingsChange(file, is_changed=True)
    return _store(file, text, remaining, has_own=True)


def list_own_handlers(file: Path) -> Handlers:
    """Return the handlers of hansei in a settings file by their events. Raises UnreadableSettings."""
    settings, _ = _load(file)
    hooks = _read_hooks(file, settings)
    return {event: entry for event, entries in hooks.items() for entry in entries if _is_own(entry)}


def _load(file: Path) -> tuple[dict[str, Any], str]:
    if not file.exists():
        return {}, ""
    try:
        text = file.read_text(encoding="utf-8")
        settings = json.loads(text) if text.strip() else {}
    except (OSError, ValueError) as error:
        raise UnreadableSettings(f"{file} is not JSON: {error}") from error
    if not isinstance(settings, dict):
        raise UnreadableSettings(f"{file} must be a JSON object")
    return settings, text


def _read_hooks(file: Path, settings: Mapping[str, Any]) -> dict[str, list[Any]]:
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict):
        raise UnreadableSettings(f"{file}: hooks must be an object")
    for event, entries in hooks.items():
        if not isinstance(entries, list):
            raise UnreadableSettings(f"{file}: hooks.{event} must be a list")
    return hooks


def _remove_own(file: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without the handlers of hansei, and without the lists and objects that are empty then."""
    hooks = _read_hooks(file, settings)
    remaining: dict[str, Any] = {}
    for event, entries in hooks.items():
        others = [other for entry in entries if (other := _remove_own_handlers(entry)) is not None]
        if others or not entries:
            remaining[event] = others
    changed = {**settings, "hooks": remaining}
    if not remaining and hooks:
        del changed["hooks"]
    return changed if "hooks" in settings else dict(settings)


def _remove_own_handlers(entry: Any) -> Any:
    """Return an entry of an event without the handlers of hansei; None if it has no others."""
    if not _is_own(entry):
        return entry
    handlers = entry.get("hooks")
    others = [handler for handler in handlers if not _is_hansei_hook(handler)] if isinstance(handlers, list) else []
    return {**entry, "hooks": others} if others else None


def _is_own(entry: Any) -> bool:
    """Return whether an entry is a handler of hansei, or a group with one."""
    handlers = entry.get("hooks") if isinstance(entry, dict) else None
    return any(map(_is_hansei_hook, handlers)) if isinstance(handlers, list) else _is_hansei_hook(entry)


def _is_hansei_hook(handler: Any) -> bool:
    if not isinstance(handler, dict):
        return False
    command, url = handler.get("command"), handler.get("url")
    return bool(isinstance(command, str) and _OWN_COMMAND.search(command)) or (isinstance(url, str) and _OWN_URL in url)


def _store(file: Path, before: str, settings: Mapping[str, Any], *, has_own: bool) -> SettingsChange:
    """Write the settings; a file without handlers of hansei is the user's own, and is kept as the backup."""
    indent = _INDENT.search(before)
    text = json.dumps(settings, ensure_ascii=False, indent=indent[1] if indent else 2) + "\n"
    if before.strip() and json.loads(before) == settings:
        return SettingsChange(file, is_changed=False)
    target = file.resolve()  # A link, as people have them for their settings, stays one.
    backup = None if has_own else _back_up(target)
    replace_file(target, text.encode("utf-8"))
    return SettingsChange(file, is_changed=True, backup=backup)


def _back_up(file: Path) -> Path | None:
    if not file.exists():
        return None
    backup = file.with_name(file.name + BACKUP_SUFFIX)
    shutil.copy2(file, backup)
    return backup
