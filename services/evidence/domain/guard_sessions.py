"""The events of a guarded session, and the verdict about a call."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from chassis.json_texts import MAX_NESTING, NestedTooDeeply, has_surrogates, parse_shallow_json
from chassis.targets.guard import CallGuard, GuardMode
from chassis.targets.session import SessionHistory, ToolCallRequest
from services.evidence.domain.assignment import draw
from services.evidence.domain.errors import InvalidCallArguments

WITHHELD_SHARE = 0.25
"""The probability with which advice is withheld, so that its effect can be measured."""


@dataclass(frozen=True, slots=True)
class SessionText:
    """A text that the agent read: a message of the user, or one of the instructions."""

    text: str
    is_instruction: bool = False


@dataclass(frozen=True, slots=True)
class SessionCall:
    """A call that was made, with its result."""

    request: ToolCallRequest
    result: str = ""
    failed: bool = False


SessionEvent = SessionText | SessionCall


@dataclass(frozen=True, slots=True)
class DecidedMatch:
    """A guard that matches a call, and whether its advice is withheld, with the probability of that."""

    guard: CallGuard
    is_withheld: bool = False
    probability: float = 0.0


def parse_arguments(text: str, field: str) -> dict[str, Any]:
    """Return the arguments of a call. Raises InvalidCallArguments unless they are an object of JSON."""
    if not text.strip():
        return {}
    try:
        value = parse_shallow_json(text)
    except NestedTooDeeply as error:
        raise InvalidCallArguments(field, text, f"must be nested at most {MAX_NESTING} levels deep") from error
    except ValueError as error:
        raise InvalidCallArguments(field, text, "is not JSON") from error
    if not isinstance(value, dict):
        raise InvalidCallArguments(field, text, "must be a JSON object")
    return value


def encode_event(event: SessionEvent) -> str:
    """Return the stored form of an event."""
    if isinstance(event, SessionText):
        return _dump({"text": event.text, "is_instruction": event.is_instruction})
    call = {"tool": event.request.tool, "args": event.request.args, "result": event.result, "failed": event.failed}
    return _dump(call)


def _dump(value: dict[str, Any]) -> str:
    """Return a value as JSON. Half of a surrogate pair, which an agent may cut off, has no form but an escape."""
    text = json.dumps(value, ensure_ascii=False)
    return json.dumps(value) if has_surrogates(text) else text


def decode_event(body: str) -> SessionEvent:
    """Return the event of a stored form."""
    value = json.loads(body)
    if "text" in value:
        return SessionText(value["text"], value["is_instruction"])
    return SessionCall(ToolCallRequest(value["tool"], value["args"]), value["result"], value["failed"])


def add_events(session: SessionHistory, events: Iterable[SessionEvent]) -> None:
    """Add events to a session."""
    for event in events:
        if isinstance(event, SessionText):
            session.add_message(event.text, is_user=not event.is_instruction)
        else:
            session.add_call(event.request, event.result, is_success=not event.failed)


def decide_matches(key: bytes, session_id: str, matches: Iterable[CallGuard]) -> list[DecidedMatch]:
    """Return the guards that match a call; advice is withheld at random, the same one during a whole session."""
    return [
        DecidedMatch(guard, draw(key, session_id, f"guard {guard.bullet_id}") < WITHHELD_SHARE, WITHHELD_SHARE)
        if guard.mode is GuardMode.ADVISE
        else DecidedMatch(guard)
        for guard in matches
    ]
