"""Commands that call the server: their common options, and the output of their results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, TypeVar, get_type_hints

import typer

from hansei.client.cli.options import Address, AsJson, DataDirectory, Local, UsePager, connect

F = TypeVar("F", bound=Callable[..., object])


def command(
    app: typer.Typer,
    view: str,
    *,
    name: str | None = None,
    local: bool = True,
    reads: bool = False,
    connect_with: Callable[..., AbstractContextManager[Any]] = connect,
    list_name: str = "",
    empty: str = "",
    check: Callable[[Any], None] | None = None,
    pages: bool = False,
) -> Callable[[F], F]:
    """Return a decorator that registers a function as a command of `app`.

    The function gets a client as its first argument and returns a message, a list or an iterator of messages, or a
    tuple of a message and more arguments of the view. The command has the options of the function and `--addr`,
    `--local` (if `local`) and `--json`. It prints JSON, or the result of a function of `hansei.client.cli.show`.

    Args:
        app: the group of the command.
        view: the module and the name of the function in `show`, such as "playbooks.render_playbook".
        name: the name of the command, unless it is the function's.
        local: whether the command can run on a stack in its own process.
        reads: whether the command changes nothing, so that no data is created for it.
        connect_with: the function that opens the client.
        list_name: print a list as one document with this field, instead of one line for each item.
        empty: the text for an empty list.
        check: a function that gets the last message after it is printed, and may end the command.
        pages: whether a long result is shown in the pager of the terminal.
    """

    def register(function: F) -> F:
        def run_command(*, addr: str | None, as_json: bool, local: bool = False, **options: Any) -> None:
            options.pop("data_dir", None)  # its callback has set it
            has_pager = options.pop("pager", False)
            with connect_with(addr, local, reads=reads) as client:
                result: Any = function(client, **options)
                if list_name and as_json:
                    print_result({list_name: list(result)}, as_json, view)
                    return
                last = None
                for last in [result] if list_name and result else _build_items(result):
                    is_line = isinstance(result, list | Iterator)
                    print_result(last, as_json, view, line=is_line, has_pager=has_pager)
                if last is None and not as_json and empty:
                    typer.echo(empty)
                if check is not None:
                    check(last)

        run_command.__name__ = function.__name__
        run_command.__doc__ = function.__doc__
        run_command.__signature__ = _build_signature(function, local, pages)  # type: ignore[attr-defined]
        run_command.__annotations__ = {}
        app.command(name)(run_command)
        return function

    return register


def _build_signature(function: Callable[..., object], local: bool, pages: bool) -> inspect.Signature:
    """Return the parameters of a function without the client, and the common options."""
    hints = get_type_hints(function, localns={"Client": object}, include_extras=True)
    parameters = [
        parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "client"
    ]
    common: list[tuple[str, Any, Any]] = [("pager", UsePager, True)] if pages else []
    common += [("addr", Address, None), ("local", Local, False)]
    common += [("data_dir", DataDirectory, None), ("as_json", AsJson, False)]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, annotation, default in common
        if local or name not in ("local", "data_dir")
    ]
    return inspect.Signature(parameters)


def _build_items(result: object) -> Any:
    return result if isinstance(result, list | Iterator) else [result]


def print_result(result: Any, as_json: bool, view: str, *, line: bool = False, has_pager: bool = False) -> None:
    """Print a message as JSON, on one line if `line`, or as its view; a tuple has more arguments of the view."""
    from hansei.client.cli.output import create_console, print_json, print_line, print_pages

    message, *view_arguments = result if isinstance(result, tuple) else (result,)
    if as_json:
        print_json(message, line=line)
        return
    module, _, function = view.partition(".")
    rendered = getattr(import_module(f"hansei.client.cli.show.{module}"), function)(message, *view_arguments)
    if isinstance(rendered, str):
        print_line(rendered)
    elif has_pager:
        print_pages(rendered)
    else:
        create_console().print(rendered, crop=False)
