"""Detects errors in tool results and normalizes their messages, so that equal errors have the same kind.

Only the beginning and the end of a result are read, so the cost of a step does not grow with its size.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache, partial

from libs.trajectories.excerpts import shorten_first_line, shorten_middle

READ_CHARS = 6_000
"""Characters that are read at each end of a tool result."""
MAX_MESSAGE_CHARS = 200
MAX_CODE_CHARS = 4
"""Characters of the longest id that may be a constant code. Ids of orders, sessions and requests are longer."""
_MARGIN_CHARS = 500
"""Characters at each end of a result that are searched for an exit code."""
_MAX_JSON_CHARS = 200_000
_CACHED_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class ToolError:
    """An error that a tool reported: its most informative line, and that line without variable parts (the kind)."""

    message: str
    kind: str


def detect_tool_error(output: str) -> ToolError | None:
    """Return the error that a tool's `output` reports, None if it reports none.

    Errors of short outputs are cached: the services of one process read the same trajectory one after the other.
    """
    return _detect_and_cache(output) if len(output) <= _CACHED_CHARS else _detect(output)


def _detect(output: str) -> ToolError | None:
    value = parse_json_container(output)
    message = _find_text_failure(output) if value is None else _find_failure(value)
    if message is None:
        return None
    line = shorten_first_line(message, MAX_MESSAGE_CHARS) or "failed without a message"
    kind = normalize_message(line)
    # Such a message consists of a bare code: without the code, all errors of the tool would be of one kind.
    return ToolError(line, kind if _TELLING_WORD.search(_PLACEHOLDER.sub("", kind)) else line)


_detect_and_cache = lru_cache(maxsize=2_048)(_detect)


def _find_text_failure(output: str) -> str | None:
    text = shorten_middle(output, READ_CHARS).strip()
    if not text:
        return None
    return next((message for rule in _TEXT_RULES if (message := rule(text)) is not None), None)


_PLACEHOLDERS = (
    (re.compile(r"\bhttps?://[^\s\"'<>)]+"), "<url>"),
    (re.compile(r"\b[\w.+-]+@[\w-]+\.[\w.]+\b"), "<email>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\b"), "<date>"),
    (re.compile(r"\b\d\d?:\d\d(?::\d\d)?\b"), "<time>"),
    (re.compile(r"(?<![\w<])(?:[A-Za-z]:)?(?:[\w.~-]*[/\\])+[\w.-]+"), "<path>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<id>"),
    (re.compile(r"\b[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}\b"), "<id>"),
    (_ID := re.compile(r"(?<![\w<])(?![a-z]+-?\d{1,2}\b)(?=[\w-]*[A-Za-z_])(?=[\w-]*\d)[\w-]{2,}(?![\w>])"), "<id>"),
    (re.compile(r"(?<!HTTP )(?<!status )(?<!code )(?<![\w<])[+-]?\d+(?:[.,]\d+)*%?(?![\w>])"), "<n>"),
)
_PLACEHOLDER = re.compile(r"<\w+>|\b(?:errors?|exception|failed|failure|fatal|rejected|refused|code|status)\b", re.I)
_TELLING_WORD = re.compile(r"[^\W\d_A-Z]{3,}|[\u3041-\u30ff\u3400-\u9fff]{2}")
_WORD = re.compile(r"[^\W\d]+")
_QUOTED = re.compile(r"(?<!\w)([\"'`])([^\"'`]{1,200})\1(?!\w)")


def list_short_codes(message: str) -> list[str]:
    """Return the ids in a message that are short enough to be constant codes, such as B88 or E41."""
    return [code for code in dict.fromkeys(_ID.findall(message)) if len(code) <= MAX_CODE_CHARS]


def normalize_message(message: str, constants: Collection[str] = ()) -> str:
    """Return `message` with its variable parts replaced: urls, dates, numbers, paths, ids and quoted phrases.

    `constants` are ids that stay.
    """
    for pattern, placeholder in _PLACEHOLDERS:
        message = pattern.sub(partial(_choose_replacement, placeholder, constants), message)
    return _QUOTED.sub(lambda found: found.group(0) if _WORD.fullmatch(found.group(2)) else "<value>", message)


def _choose_replacement(placeholder: str, constants: Collection[str], found: re.Match[str]) -> str:
    return found[0] if found[0] in constants else placeholder


_EXIT_CODE = re.compile(
    r"\b(?:exit ?code|exit status|exited with(?: code| status)?|return code|returncode)\s*[:=]?\s*(-?\d+)", re.I
)
_EXCEPTION_LINE = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Exit|Interrupt)(?::\s.*|\s*)$")
_ERROR_LINE = re.compile(
    r"^\W{0,3}(?:(?:[\w.-]+: )?(?:fatal|error|fatal error|parse error|runtime error|exception|failed|failure)\b"
    r"(?:\s*\(?[\w\s.-]{0,20}\)?)\s*[:\-]\s*\S|エラー\s*[:：]|失敗\s*[:：])",
    re.I,
)
_ERROR_HEADLINE = re.compile(r"^error\b(?!s?\s*(?:=|rate|bar|handling|messages?))\s", re.I)
_HTTP_LINE = re.compile(
    r"^\W{0,3}(?:HTTP(?:/[\d.]+)?|status(?:[ _]code)?|response(?: code)?)\s*[:=]?\s*([45]\d\d)\b"
    r"|^\W{0,3}([45]\d\d) (?:bad (?:request|gateway)|unauthorized|forbidden|not found|method not allowed|conflict|gone|"
    r"request time-?out|payload too large|unprocessable|too many requests|internal server|service unavail|gateway time)"
    r"|\bHTTP ?(?:error|status)?\s*:?\s*([45]\d\d)\b",
    re.I,
)
_SHELL_LINE = re.compile(
    r"command not found|no such file or directory|permission denied|is not recognized as an internal|"
    r"connection (?:refused|reset|timed out)|could not resolve host|access (?:is )?denied|timed? ?out\b",
    re.I,
)
_LABEL = re.compile(r"^(?:code output|output|result|observation|stdout|stderr|観測|結果|出力)\s*[:：]\s*", re.I)
_LINES_READ = 40
_SHORT_LINES = 3
_ERROR_FIELDS = ("error", "errors", "exception", "error_message")
_EXIT_FIELDS = ("exit_code", "exitcode", "exitCode", "returncode", "return_code")
_OUTPUT_FIELDS = ("stderr", "output", "stdout", "result", "content")
_MESSAGE_FIELDS = ("message", "detail", "title", "reason", "msg", "body")
_DETAIL_FIELDS = ("message", "detail", "msg", "error", "title", "type", "code")
_MAX_LEVELS = 5
_BAD_STATUS = frozenset({"error", "failed", "failure", "fail", "denied", "rejected"})


def parse_json_container(output: str) -> dict[str, object] | list[object] | None:
    """Return the JSON object or list of a text, None if it is neither or too long."""
    if len(output) > _MAX_JSON_CHARS or output.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value = json.loads(output)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _find_failure(value: object) -> str | None:
    """Return the error message of a JSON result; a list has none."""
    if not isinstance(value, dict):
        return None
    error = next((value[key] for key in _ERROR_FIELDS if value.get(key) and value[key] is not True), None)
    detail = next((value[key] for key in _MESSAGE_FIELDS if value.get(key)), None)
    if error is not None:
        message = _extract_message(error)
        # An identifier such as "not_found" is less informative than the sentence beside it.
        return message if detail is None or " " in message else f"{message}: {_extract_message(detail)}"
    if _is_failure(value):
        return _extract_message(detail) if detail is not None else "the tool reported no success"
    shown = next((text for key in _OUTPUT_FIELDS if isinstance(text := value.get(key), str) and text.strip()), "")
    if any(value.get(key) not in (None, 0, "0", False) for key in _EXIT_FIELDS):
        return _find_telling_line(shorten_middle(shown, READ_CHARS)) or "the program failed"
    return _find_text_failure(shown)


def _is_failure(value: dict[str, object]) -> bool:
    status = next((value[key] for key in ("status_code", "statusCode", "status", "code") if key in value), None)
    if isinstance(status, str) and status.lower() in _BAD_STATUS:
        return True
    if isinstance(status, int) and not isinstance(status, bool) and 400 <= status < 600:
        return True
    if any(value.get(key) is False for key in ("success", "ok")):
        return True
    return any(value.get(key) is True for key in ("isError", "is_error", "error", "failed"))


def _extract_message(detail: object) -> str:
    """Return the text in `detail`, searched a few levels deep."""
    for _ in range(_MAX_LEVELS):
        if isinstance(detail, list) and detail:
            detail = detail[0]
        elif isinstance(detail, dict):
            detail = next((detail[key] for key in _DETAIL_FIELDS if detail.get(key)), str(sorted(detail)[:5]))
    return detail if isinstance(detail, str) else reprlib.repr(detail)


def _find_exit_code_message(text: str) -> str | None:
    found = _EXIT_CODE.search(shorten_middle(text, _MARGIN_CHARS))
    if found is None or int(found.group(1)) == 0:
        return None
    return _find_telling_line(text) or f"exit code {found.group(1)}"


def _find_traceback_line(text: str) -> str | None:
    if "Traceback (most recent call last)" not in text:
        return None
    return _find_telling_line(text) or "Traceback"


def _find_error_line(text: str) -> str | None:
    """Return the first line with the form of an error; a bare "Error ..." counts only in the first line."""
    for number, line in enumerate(text.splitlines()[:_LINES_READ]):
        stripped = _LABEL.sub("", line.strip())
        if _ERROR_LINE.match(stripped) or _EXCEPTION_LINE.match(stripped):
            return stripped
        if number == 0 and _ERROR_HEADLINE.match(stripped):
            return stripped
        if _HTTP_LINE.search(stripped[:200]):
            return _add_body(stripped, text)
    return None


def _add_body(status_line: str, text: str) -> str:
    """Return an HTTP status line with the error message of the JSON body below it."""
    start = text.find("{")
    if start < 0 or len(status_line) > MAX_MESSAGE_CHARS // 2:
        return status_line
    try:
        body, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return status_line
    message = _find_failure(body)
    return f"{status_line}: {message}" if message is not None else status_line


def _find_shell_error(text: str) -> str | None:
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > _SHORT_LINES:
        return None
    return next((line for line in lines if _SHELL_LINE.search(line)), None)


_TEXT_RULES: tuple[Callable[[str], str | None], ...] = (
    _find_traceback_line,
    _find_exit_code_message,
    _find_error_line,
    _find_shell_error,
)


def _find_telling_line(text: str) -> str | None:
    """Return the most informative line of a failing program: last exception, error line or last line."""
    lines = [_LABEL.sub("", line.strip()) for line in text.splitlines() if line.strip()]
    for line in reversed(lines):
        if _EXCEPTION_LINE.match(line):
            return line
    for line in lines:
        if _ERROR_LINE.match(line) or (_SHELL_LINE.search(line) and len(line) < MAX_MESSAGE_CHARS):
            return line
    rest = [line for line in lines if not _EXIT_CODE.search(line[:_MARGIN_CHARS])]
    return rest[-1] if rest else None
