"""The root of the command tree: it loads a command when it is called, and words the errors of typer."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from inspect import getdoc
from types import ModuleType
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from hansei.client.cli.groups import build_group
from hansei.client.cli.plain_values import LazyConversions

SECTIONS = {
    "Start": {"up": "stack", "demo": "stack", "open": "overview", "status": "overview", "doctor": "doctor"},
    "Learn": {
        "learn": "learn",
        "hooks": "hooks",
        "hook": "hooks",
        "jobs": "jobs",
        "trajectories": "trajectories",
        "relearn": "relearn",
    },
    "Use what was learned": {
        "search": "query",
        "ask": "query",
        "mcp": "mcp",
        "a2a": "a2a",
        "guards": "guard_targets",
        "plan": "plan",
    },
    "Playbooks": {
        "playbook": "playbook",
        "remember": "edits",
        "edit": "edits",
        "forget": "edits",
        "dataset": "datasets",
    },
    "Measure": {"trials": "trials", "effects": "trials", "decisions": "trials", "eval": "evaluation"},
    "Validate and compare": {
        "validate": "validate",
        "report": "report",
        "rounds": "rounds",
        "leaderboard": "rounds",
        "evaluate": "rounds",
        "judge": "rounds",
    },
    "Administer": {"keys": "keys", "audit": "keys", "config": "config"},
}
"""The commands by the section of the help, each with its module in `hansei.client.cli`.

A module has its group as `app`, and commands outside a group as `commands`.
"""
_WHOLE_TEXT = 1000


class LazyCommands(MutableMapping[str, Any]):
    """The commands by name; the module of a command is imported when the command is read."""

    def __init__(self) -> None:
        self._modules = {name: module for section in SECTIONS.values() for name, module in section.items()}
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def describe(self, name: str) -> str:
        """Return the first sentence of the help of a command, without building the command."""
        module = self._import(name)
        for registered in module.commands.registered_commands if hasattr(module, "commands") else ():
            if name == (registered.name or registered.callback.__name__):
                text = registered.help or getdoc(registered.callback)
                break
        else:
            text = module.app.info.help
        return TyperCommand(name, help=text).get_short_help_str(_WHOLE_TEXT)

    def _import(self, name: str) -> ModuleType:
        return import_module(f"hansei.client.cli.{self._modules[name]}")

    def _load(self, name: str) -> Any:
        module = self._import(name)
        if hasattr(module, "commands"):
            singles = build_group(module.commands).commands
            if name in singles:
                return singles[name]
        group = build_group(module.app)
        group.name = name
        return group

    def __setitem__(self, name: str, command: Any) -> None:
        self._modules.setdefault(name, "")
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._modules[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


class RootGroup(LazyConversions, TyperGroup):
    """A group whose commands describe wrong values in the words of hansei."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = self._lazy_commands = LazyCommands()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, without importing their modules."""
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands section by section, each with its whole first sentence."""
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, self._lazy_commands.describe(name)) for name in names])

    def invoke(self, ctx: Any) -> Any:
        """Invoke the chosen command. Raises typer.BadParameter for a wrong value."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = _describe(error)
            raise


def _describe(error: typer.BadParameter) -> str:
    """Return the rule that a value breaks, and the value, instead of the text of pydantic."""
    # These load slowly, so they are imported only after an error.
    from pydantic import ValidationError

    from chassis.field_errors import describe_rule, describe_value

    if not isinstance(error.__cause__, ValidationError):
        return error.message
    (item, *_) = error.__cause__.errors(include_url=False)
    rule = describe_rule(item)
    return rule if item["type"] == "value_error" else f"{rule} (got {describe_value(item['input'])})"
