"""The session of an agent as targets see it: its earlier calls and their results, and the texts that it read."""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from chassis.errors import shorten
from chassis.json_texts import format_as_text, is_nested_too_deeply, parse_shallow_json
from chassis.targets.errors import EvaluationFailed

MAX_ARGUMENTS_CHARS = 100_000
"""Characters of the arguments of a call as JSON that the contract allows; longer ones are left out."""
MAX_RESULT_CHARS = 400_000
"""Characters of the result of a call that the contract allows; longer ones are cut."""
MAX_MESSAGE_CHARS = 100_000
"""Characters of a message of a session that the contract allows; longer ones are cut."""
MAX_TEXT_CHARS = 400_000
"""Characters of messages and results that a session keeps for `seen`; with more, every value counts as seen."""
MAX_TOOLS = 1_000
"""Different tools whose calls a session counts; of another tool it is not known whether it was called."""
MAX_CALL_KEYS = 10_000
"""Different calls that a session counts for `repeats` and `failures`; of another call, the number is not known."""
MAX_STORED_BYTES = 8_000_000
"""Bytes of memory of each of three: the last calls of all tools, the keys of calls, and `successful_arguments`.

The last calls that are the oldest are forgotten first. Keys and arguments beyond it are not kept.
"""
MAX_SUCCESSFUL_ARGUMENTS = 1_000
"""Successful calls of a tool whose arguments a session keeps for `succeeded_args`."""
MAX_KEY_ARGUMENTS_CHARS = 200_000
"""Characters of arguments above which calls are not compared with each other."""
_CONTAINERS = (list, dict)
_ITEM_CHARS = 20
_WORD_BYTES = 120
"""Bytes of memory of a word or a number in a set, about."""
_TOOL_BYTES = 1_000
"""Bytes of memory of the counts of a tool, about."""
_MAX_KEY_CHARS = 20_000

_WORD = re.compile(r"[a-z0-9]+")
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?")
_YES = re.compile(
    r"\b(?:yes|yeah|yep|yup|ok|okay|sure|confirm(?:ed|s)?|proceed|go ahead|please do|do it|correct|agreed?|approved?"
    r"|sounds good|that works|that's right|absolutely|definitely)\b"
    r"|はい|ええ|お願いします|了解|承知|進めて|確認しました|大丈夫です|それで",
    re.IGNORECASE,
)
_NO = re.compile(
    r"^\W*(?:no|nope|not|don't|do not|wait|stop|never|hold on)\b|\b(?:don't|do not|not) (?:proceed|confirm|go ahead)\b"
    r"|^\W*(?:いいえ|いや|待って|やめて)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ToolCallRequest:
    """A tool call that an agent is about to make. `args` is an object of JSON."""

    tool: str
    args: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def is_large(self) -> bool:
        """Return whether the arguments are too large or too deep to compare calls by them.

        An item counts as twenty characters.
        """
        remaining = MAX_KEY_ARGUMENTS_CHARS
        pending: list[Any] = [self.args]
        while pending:
            value = pending.pop()
            remaining -= len(value) if isinstance(value, str) else _ITEM_CHARS
            items = len(value) if isinstance(value, list | dict) else 0
            if remaining < _ITEM_CHARS * items:
                return True
            if isinstance(value, dict):
                pending += value.keys()
                pending += value.values()
            elif items:
                pending += value
        return is_nested_too_deeply(self.args)

    @cached_property
    def stored_bytes(self) -> int:
        """Return the bytes of memory of the arguments."""
        return _measure_bytes(self.args)

    @cached_property
    def key(self) -> str:
        """Return a text that is equal for calls of the same tool with the same arguments."""
        return f"{self.tool} {_encode(self.args)}"


def encode_arguments(arguments: Mapping[str, Any]) -> str:
    """Return the arguments of a call as JSON for the contract; empty if they are longer or deeper than it allows."""
    text = _dump(arguments)
    return text if text and len(text) <= MAX_ARGUMENTS_CHARS and not is_nested_too_deeply(arguments) else ""


def shorten_result(result: Any) -> str:
    """Return the result of a call for the contract: a text, or the JSON of another value, cut where it is too long.

    It is empty for a value that is nested too deeply for JSON.
    """
    return _dump(result)[:MAX_RESULT_CHARS]


def _dump(value: Any) -> str:
    """Return a value as `format_as_text` does; an empty text if it is nested too deeply, or contains itself."""
    try:
        return format_as_text(value)
    except (ValueError, RecursionError):
        return ""


class TextIndex:
    """Texts in which values are searched: numbers of any notation, texts in any case and as whole words."""

    __slots__ = ("_added", "_numbers", "_searched", "_searched_chars", "_text", "_words")

    def __init__(self) -> None:
        self._text = ""
        self._added: list[str] = []
        self._words: set[str] = set()
        self._numbers: set[float] = set()
        self._searched: dict[str, int | None] = {}
        """The values of searches, each with the length of the text that was searched; None once it is found."""
        self._searched_chars = 0

    @property
    def stored_bytes(self) -> int:
        """Return the bytes of memory of the texts, about."""
        self._join()
        texts = sys.getsizeof(self._text) + self._searched_chars
        return texts + _WORD_BYTES * (len(self._words) + len(self._numbers))

    def add(self, text: str) -> None:
        """Add a text."""
        normalized = _normalize(text)
        if not normalized:
            return
        self._added.append(normalized)
        self._words.update(_WORD.findall(normalized))
        for found in _NUMBER.findall(text):
            number = float(found.replace(",", ""))
            if math.isfinite(number):
                self._numbers.add(number)

    def clear(self) -> None:
        """Forget all texts."""
        self._text = ""
        for store in (self._added, self._words, self._numbers, self._searched):
            store.clear()
        self._searched_chars = 0

    def has(self, value: str | float) -> bool:
        """Return whether a text or a number occurs."""
        if not isinstance(value, str):
            return float(value) in self._numbers
        self._join()
        searched = self._searched.get(value, 0)
        if searched is None:
            return True
        if searched < len(self._text) or not self._text:
            if value not in self._searched:
                self._add_search(value)
            if self._search(_normalize(value), searched):
                self._searched[value] = None
                return True
            self._searched[value] = len(self._text)
        return False

    def _add_search(self, value: str) -> None:
        size = len(value) + _ITEM_CHARS
        if self._searched_chars + size > MAX_TEXT_CHARS:
            self._searched.clear()
            self._searched_chars = 0
        self._searched_chars += size

    def _join(self) -> None:
        """Join the texts: one search is faster than many. A line end, which no searched value has, separates them."""
        if self._added:
            self._text = "\n".join([self._text, *self._added])
            self._added.clear()

    def _search(self, wanted: str, start: int) -> bool:
        """Return whether a text occurs from a position on."""
        if not wanted:
            return True
        # A run of letters and digits is a whole word of the text, so most values that never occur need no search.
        words = _WORD.findall(wanted)
        if not self._words.issuperset(words):
            return False
        if [wanted] == words:
            return True
        before, after = _is_word_character(wanted[0]), _is_word_character(wanted[-1])
        start = self._text.find(wanted, start)
        while start >= 0:
            end = start + len(wanted)
            if not (
                (before and _is_word_character(self._text[start - 1 : start]))
                or (after and _is_word_character(self._text[end : end + 1]))
            ):
                return True
            start = self._text.find(wanted, end)
        return False


class _KnownCounts(Counter[str]):
    """The counts of the tools that are known, of a session with more tools: targets cannot read those of others."""

    def __init__(self, counts: Counter[str], tools: Set[str]) -> None:
        super().__init__(counts)
        self._tools = tools

    def __contains__(self, tool: object) -> bool:
        self._require(tool)
        return super().__contains__(tool)

    def get(self, tool: str, default: Any = None) -> Any:
        """Return the count of a tool. Raises EvaluationFailed if it is not known."""
        self._require(tool)
        return super().get(tool, default)

    def _require(self, tool: object) -> None:
        if tool not in self._tools:
            raise EvaluationFailed(
                f"reads the calls of {shorten(str(tool))!r} after those of {MAX_TOOLS:,} other tools"
            )


@dataclass(slots=True)
class SessionHistory:
    """The earlier calls of a session, and the texts of its user, its instructions and its results."""

    counts: Counter[str] = field(default_factory=Counter)
    successes: Counter[str] = field(default_factory=Counter)
    repeats: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    arguments: dict[str, dict[str, Any]] = field(default_factory=dict)
    successful_arguments: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    is_confirmed: bool = False
    failed_in_a_row: tuple[str, int] = ("", 0)
    """The key of the last call, if it failed, with the number of its failures without another call between them."""
    has_lost_keys: bool = False
    """Some keys of calls are not kept, so a call without a count may have been made."""
    _tools: set[str] = field(default_factory=set)
    _last_bytes: dict[str, int] = field(default_factory=dict)
    """The bytes of the last call of each tool whose last call is kept, the oldest call first."""
    _last_bytes_sum: int = 0
    _key_bytes: int = 0
    _argument_bytes: int = 0
    _user: TextIndex = field(default_factory=TextIndex)
    _instructions: TextIndex = field(default_factory=TextIndex)
    _results: TextIndex = field(default_factory=TextIndex)
    _size: int = 0

    def add_message(self, text: str, *, is_user: bool = True) -> None:
        """Add a message of the user, or with `is_user` false one of the instructions."""
        self._add_text(text, self._user if is_user else self._instructions)
        if is_user:
            self.is_confirmed = bool(_YES.search(text)) and not _NO.search(text)

    def add_call(self, call: ToolCallRequest, result: Any, *, is_success: bool) -> None:
        """Add a call that was made, with its result: a value of JSON, or a text, that of a JSON document is parsed."""
        if self._add_tool(call.tool):
            self.counts[call.tool] += 1
            if is_success:
                self.successes[call.tool] += 1
                self._store_successful_arguments(call)
        key = "" if is_success or call.is_large else call.key
        last_key, count = self.failed_in_a_row
        self.failed_in_a_row = (key, count + 1 if key == last_key else 1)
        if not call.is_large:
            self._count_key(call.key, is_success)
        self._store_last(call, _parse_result(result))
        self.add_result(result)

    def add_result(self, result: Any) -> None:
        """Add a result alone: `has_seen` finds its values, and no call is counted."""
        try:
            text = result if isinstance(result, str) else _encode(result)
        except (ValueError, RecursionError):  # it is nested too deeply, or contains itself: it may have any value
            text, self._size = "", MAX_TEXT_CHARS + 1
        self._add_text(text, self._results)

    def has_seen(self, value: Any) -> bool:
        """Return whether a value occurs in a message or a result.

        A number occurs as a number of any notation, a text in any case and as whole words. A list or an object occurs
        if all its values do. True, false, null and the empty text always occur.
        """
        return self._occurs(value, (self._user, self._instructions, self._results))

    def has_found(self, value: Any) -> bool:
        """Return whether a value occurs in an earlier result, by the rules of `has_seen`."""
        return self._occurs(value, (self._results,))

    def is_from_user(self, value: Any) -> bool:
        """Return whether a value occurs in a message of the user, by the rules of `has_seen`."""
        return self._occurs(value, (self._user,))

    @property
    def stored_bytes(self) -> int:
        """Return the bytes of memory of the session, about."""
        texts = sum(index.stored_bytes for index in (self._user, self._instructions, self._results))
        calls = self._last_bytes_sum + self._key_bytes + self._argument_bytes
        return texts + calls + _TOOL_BYTES * len(self._tools)

    @property
    def size(self) -> int:
        """Return the number of characters that `has_seen` searches."""
        return min(self._size, MAX_TEXT_CHARS)

    def _add_tool(self, tool: str) -> bool:
        """Add a tool; return whether its calls are counted, as those of the first `MAX_TOOLS` are."""
        if tool in self._tools:
            return True
        if len(self._tools) < MAX_TOOLS:
            self._tools.add(tool)
            return True
        if not isinstance(self.counts, _KnownCounts):
            self.counts = _KnownCounts(self.counts, self._tools)
            self.successes = _KnownCounts(self.successes, self._tools)
        return False

    def _store_successful_arguments(self, call: ToolCallRequest) -> None:
        stored = self.successful_arguments.setdefault(call.tool, [])
        if call.is_large or len(stored) >= MAX_SUCCESSFUL_ARGUMENTS:
            return
        if self._argument_bytes + call.stored_bytes <= MAX_STORED_BYTES:
            self._argument_bytes += call.stored_bytes
            stored.append(call.args)

    def _count_key(self, key: str, is_success: bool) -> None:
        if key not in self.repeats:
            size = sys.getsizeof(key) + 2 * _WORD_BYTES
            if len(self.repeats) >= MAX_CALL_KEYS or self._key_bytes + size > MAX_STORED_BYTES:
                self.has_lost_keys = True
                return
            self._key_bytes += size
        self.repeats[key] += 1
        self.failures[key] += not is_success

    def _store_last(self, call: ToolCallRequest, result: Any) -> None:
        """Keep a call as the last one of its tool; forget those of the tools whose last call is the oldest."""
        self._forget_last(call.tool)
        size = call.stored_bytes + _measure_bytes([call.tool, result])
        if size > MAX_STORED_BYTES:
            return
        while self._last_bytes_sum + size > MAX_STORED_BYTES:
            self._forget_last(next(iter(self._last_bytes)))
        self.arguments[call.tool], self.results[call.tool] = call.args, result
        self._last_bytes[call.tool] = size
        self._last_bytes_sum += size

    def _forget_last(self, tool: str) -> None:
        if tool in self._last_bytes:
            self._last_bytes_sum -= self._last_bytes.pop(tool)
            del self.arguments[tool], self.results[tool]

    def _occurs(self, value: Any, indexes: tuple[TextIndex, ...]) -> bool:
        if self._size > MAX_TEXT_CHARS or value is None or isinstance(value, bool):
            return True
        if isinstance(value, str | int | float):
            return any(index.has(value) for index in indexes)
        return all(self._occurs(item, indexes) for item in (value.values() if isinstance(value, dict) else value))

    def _add_text(self, text: str, index: TextIndex) -> None:
        self._size += len(text)
        if self._size <= MAX_TEXT_CHARS:
            index.add(text)
        else:
            for full in (self._user, self._instructions, self._results):
                full.clear()


def _normalize(text: str) -> str:
    return " ".join(text.casefold().split())


def _is_word_character(character: str) -> bool:
    # Scripts without spaces between words have no word boundaries.
    return character.isascii() and character.isalnum()


def _measure_bytes(value: list[Any] | dict[str, Any]) -> int:
    """Return the bytes of memory of a value of JSON; of one beyond `MAX_STORED_BYTES`, more than these."""
    size, pending = sys.getsizeof(value), [value]
    while pending and size <= MAX_STORED_BYTES:
        container = pending.pop()
        items: Collection[Any] = container
        if isinstance(container, dict):
            size += sum(map(sys.getsizeof, container))
            items = container.values()
        size += sum(map(sys.getsizeof, items))
        pending += [item for item in items if isinstance(item, _CONTAINERS) and item]
    return size


def _encode(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_KEY_CHARS else f"{text[:_MAX_KEY_CHARS]}{len(text)}{_compute_digest(text)}"


def _compute_digest(text: str) -> str:
    """Return a digest that is the same in every process: stored calls are compared by it."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _parse_result(result: Any) -> Any:
    if not isinstance(result, str) or result.lstrip()[:1] not in ("{", "["):
        return result
    try:
        return parse_shallow_json(result)
    except ValueError:
        return result
