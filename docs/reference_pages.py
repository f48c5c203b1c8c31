"""Write the references of the command line, of the SDK and of HTTP, from the code and the contract, as Markdown.

`docs/site.py` adds them to the site at each build, so they cannot be outdated.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from google.api import annotations_pb2
from google.protobuf.descriptor_pb2 import MethodDescriptorProto

from docs.contract_pages import FILE_SERVICE, METHOD, format_cell, load_sources

SDK_MODULES = (
    ("hansei.client.client", ("Client", "AsyncClient")),
    ("hansei.client.serving", ("Serving",)),
    ("hansei.client.adapters.agent_memory", ("AgentMemory", "ToolVerdict")),
    ("hansei.client.guards", ("SessionGuard",)),
    ("hansei.client.openai", ("AgentSession",)),
    ("hansei.client.langchain", ("PlaybookRetriever", "TrajectoryRecorder")),
    ("hansei.client.tls", ("Tls",)),
    ("hansei.client.errors", ()),
)
"""The public classes by module; of a module without names, all classes."""
_WIDTH = 100


def render_pages() -> dict[str, str]:
    """Return the text of each page by its path in the site."""
    return {
        "reference/cli.md": _render_cli(),
        "reference/sdk.md": _render_sdk(),
        "reference/http.md": _render_http(),
    }


def _render_cli() -> str:
    import typer

    from hansei.client.cli import root_command
    from hansei.client.cli.options import EXIT_CODES

    root = root_command()
    lines = ["# Command line", "", "The exit codes, and the text of `--help` of every command.", ""]
    lines += [
        "| exit code | meaning |",
        "|---|---|",
        *(f"| {code.value} | {meaning} |" for code, meaning in EXIT_CODES.items()),
        "",
    ]
    for name, command in _list_commands(root):
        context = typer.Context(command, info_name=f"hansei {name}", terminal_width=_WIDTH, max_content_width=_WIDTH)
        lines += [f"## hansei {name}", "", "```text", command.get_help(context).rstrip(), "```", ""]
    return "\n".join(lines)


def _list_commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        full = f"{prefix} {name}".strip()
        if hasattr(command, "commands"):
            yield from _list_commands(command, full)
        else:
            yield full, command


def _render_sdk() -> str:
    """Return a page of directives: mkdocstrings replaces each by the documentation of the class."""
    lines = [
        "# Python SDK",
        "",
        "The public classes of `hansei.client`, from their docstrings. Begin with `Client`, or with `AsyncClient`,",
        "which has the same methods for asyncio; `AgentMemory` connects an agent. Import exceptions from",
        "`hansei.client.errors`.",
        "",
    ]
    for module_name, names in SDK_MODULES:
        lines += [f"## {module_name}", ""]
        for path in [f"{module_name}.{name}" for name in names] or _list_errors(module_name):
            lines += [f"::: {path}", ""]
    return "\n".join(lines)


def _list_errors(module_name: str) -> Iterator[str]:
    """Yield the paths of the exceptions of a module, each where it is defined."""
    for value in vars(import_module(module_name)).values():
        if isinstance(value, type) and issubclass(value, Exception):
            yield f"{value.__module__}.{value.__name__}"


def _render_http() -> str:
    lines = [
        "# HTTP",
        "",
        "All methods of the contract that have a path. The gateway serves them at `http://127.0.0.1:8080` by default",
        "(`HANSEI_HTTP_ADDRESS`). Bodies and responses are the JSON of the messages on the linked page; `{name}` is a",
        "field of the request, and fields of GET and DELETE are query parameters. A request that streams has a JSON",
        "array of its messages as its body; responses that stream are server-sent events. If the gateway requires",
        "credentials, send `authorization: Bearer KEY` with an API key or a token. `/openapi.json` describes them all.",
        "",
        "| method and path | RPC | description |",
        "|---|---|---|",
    ]
    for source in load_sources():
        package = source.file.package
        for number, service in enumerate(source.file.service):
            for position, method in enumerate(service.method):
                what = format_cell(source.comment(FILE_SERVICE, number, METHOD, position)).split(". ")[0].rstrip(".")
                call = f"[{service.name}.{method.name}](contracts/{package}.md#{method.name.lower()})"
                lines += [f"| `{path}` | {call} | {what} |" for path in _list_paths(method)]
    return "\n".join([*lines, ""])


def _list_paths(method: MethodDescriptorProto) -> Iterator[str]:
    """Yield the HTTP method and the path of each rule of a method."""
    if not method.options.HasExtension(annotations_pb2.http):
        return
    rule = method.options.Extensions[annotations_pb2.http]
    for binding in (rule, *rule.additional_bindings):
        kind = binding.WhichOneof("pattern")
        if kind:
            yield f"{kind.upper()} {getattr(binding, kind)}"
