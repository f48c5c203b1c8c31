"""Groups of commands and their help: human names for types, and an example under every command."""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from hansei.client.cli.examples import EXAMPLES
from hansei.client.cli.plain_values import LazyConversions

_TYPE = re.compile(r" ?<(str|int range|int|float range|float|file|directory|dir|path|datetime|[^<>]*\|[^<>]*)>")
_TYPE_NAMES = {
    "str": "TEXT",
    "int": "NUMBER",
    "int range": "NUMBER",
    "float": "NUMBER",
    "float range": "NUMBER",
    "file": "FILE",
    "directory": "DIR",
    "dir": "DIR",
    "path": "PATH",
}
_DATE_TIME = "%Y-%m-%d"


class HelpCommand(LazyConversions, TyperCommand):
    """A command whose help names types as people do, and ends with examples."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the tables of arguments and of options."""
        arguments: list[tuple[str, str]] = []
        options: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is None:
                continue
            is_argument = parameter.param_type_name == "argument"
            label = _TYPE.sub("" if is_argument else _name_type, record[0])
            (arguments if is_argument else options).append((label, _describe_range(record[1])))
        for title, rows in (("Arguments", arguments), ("Options", options)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples, each on a line of its own, as a user would copy it."""
        examples = EXAMPLES.get(ctx.command_path.partition(" ")[2], ())
        if examples:
            with formatter.section("Examples"):
                for example in examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


def _name_type(found: re.Match[str]) -> str:
    name = found[1]
    if name in _TYPE_NAMES:
        return f" {_TYPE_NAMES[name]}"
    return " DATE" if _DATE_TIME in name else f" {name}"


def _describe_range(help_text: str) -> str:
    """Return the help of an option with its range in words: `[x>=1]` is `[at least 1]`."""
    text = re.sub(r"\[(-?[\d.]+)<=x<=(-?[\d.]+)\]", r"[\1 to \2]", help_text)
    text = re.sub(r"(-?[\d.]+)<=x<=(-?[\d.]+)(?=[;\]])", r"\1 to \2", text)
    return re.sub(r"x>=(-?[\d.]+)(?=[;\]])", r"at least \1", text)


class HelpGroup(LazyConversions, TyperGroup):
    """A group of commands."""


class CommandGroup(typer.Typer):
    """A group of commands that shows its help if no command is named."""

    def __init__(self, help: str = "") -> None:
        super().__init__(cls=HelpGroup, help=help, no_args_is_help=True, rich_markup_mode=None)


def build_group(app: typer.Typer) -> TyperGroup:
    """Return the group of an app; its commands have the help of this module."""
    for command in app.registered_commands:
        command.cls = HelpCommand
    return get_group(app)
