"""Names the operation of a call, where one tool has many: `git commit`, `http POST`, `sqlite INSERT`."""

from __future__ import annotations

import json
import re

_READ_CHARS = 4_000
_MAX_JSON_CHARS = 100_000
COMMAND_FIELDS = ("command", "cmd", "args", "argv")
_METHOD_FIELDS = ("method", "http_method", "verb")
_SQL_FIELDS = ("sql", "statement", "query")
_SHELLS = frozenset({"shell", "sh", "bash", "console", "terminal", "execute_bash", "run_command"})
_WITH_SUBCOMMANDS = frozenset(
    {"apt", "apt-get", "aws", "az", "brew", "cargo", "conda", "docker", "gcloud", "gh", "git", "go", "helm", "hg"}
    | {"kubectl", "npm", "pip", "poetry", "svn", "systemctl", "terraform", "uv", "yarn"}
)
_METHOD = re.compile(r"(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)", re.I)
_SQL = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|REPLACE|MERGE|PRAGMA|BEGIN|COMMIT|WITH)\b", re.I)
_SKIPPED = re.compile(r"^(?:\s*(?:#[^\n]*\n|cd [^&;\n]*(?:&&|;|\n)|sudo\s|\w+=\S*\s))*\s*")
_PROGRAM = re.compile(r"[A-Za-z][\w.+-]{0,40}")
_SUBCOMMAND = re.compile(r"[a-z][a-z-]{0,30}")


def name_operation(tool: str, arguments: str) -> str:
    """Return the tool's name with the requested operation, as far as the form of `arguments` shows it."""
    if arguments.lstrip()[:1] != "{":
        return (_extract_command_name(arguments) or tool) if tool.lower() in _SHELLS else tool
    if len(arguments) > _MAX_JSON_CHARS:
        return tool
    try:
        fields = json.loads(arguments)
    except (ValueError, RecursionError):
        return tool
    return _name_request(tool, fields) if isinstance(fields, dict) else tool


def _name_request(tool: str, fields: dict[str, object]) -> str:
    method = _find_first_text(fields, _METHOD_FIELDS)
    if _METHOD.fullmatch(method):
        return f"{tool} {method.upper()}"
    sql = _SQL.match(_find_first_text(fields, _SQL_FIELDS))
    if sql:
        return f"{tool} {sql.group(1).upper()}"
    command = _extract_command_name(_find_first_text(fields, COMMAND_FIELDS))
    if not command or command == tool:
        return tool
    if tool.lower() in _SHELLS or command.startswith(f"{tool} "):
        return command
    return f"{tool} {command}" if tool in _WITH_SUBCOMMANDS else tool


def _find_first_text(fields: dict[str, object], names: tuple[str, ...]) -> str:
    value = next((fields[name] for name in names if fields.get(name)), "")
    if isinstance(value, list):
        value = " ".join(item for item in value[:20] if isinstance(item, str))
    return value[:_READ_CHARS] if isinstance(value, str) else ""


def _extract_command_name(text: str) -> str:
    """Return the program of a shell command with its subcommand; empty if there is none."""
    words = _SKIPPED.sub("", text[:_READ_CHARS], count=1).split(maxsplit=2)
    if not words or not _PROGRAM.fullmatch(words[0]):
        return ""
    if words[0] in _WITH_SUBCOMMANDS and len(words) > 1 and _SUBCOMMAND.fullmatch(words[1]):
        return f"{words[0]} {words[1]}"
    return words[0]
