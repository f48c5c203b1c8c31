"""`hansei hook AGENT`: read the input of a hook from stdin, write its output to stdout.

The agent always continues: the exit code is never 2, which makes agents cancel the current action.
"""

from __future__ import annotations

import json
import os
import sys
import time

from hansei.client.hooks.agents import AGENTS, DEFAULT_DATASET, DEFAULT_URL, URL_VARIABLE, HookAgent
from hansei.client.hooks.http_post import PostFailed, post_json
from hansei.client.masking import SecretMask

SECONDS = 0.2
"""The time limit of the gateway; the variable HANSEI_HOOK_SECONDS replaces it."""
SERVING_HEADER = "x-hansei-serving-id"
_FIELDS = (
    "hook_event_name",
    "session_id",
    "conversation_id",
    "cwd",
    "workspace_roots",
    "source",
    "prompt",
    "tool_name",
    "tool_input",
    "tool_response",
    "error",
)
"""The fields that the gateway reads. Others, such as the address of the user, stay on the machine."""
_USAGE = "usage: hansei hook claude|codex|cursor [--dataset NAME] [--url URL] [--addr HOST:PORT]"


def main(arguments: list[str]) -> int:
    """Handle one event. Returns the exit code, 0, or 1 for wrong usage and input that is not JSON."""
    start = time.monotonic()
    try:
        deadline = start + _read_seconds()
        agent, options = _parse_arguments(arguments)
        document = _read_event()
    except ValueError as error:
        sys.stderr.write(f"hansei: {error}\n")
        return 1
    name = document.get("hook_event_name")
    if name in agent.ends:
        _begin_learning(arguments[0], document, options)
        output = "{}"
    else:
        output = _ask_gateway(agent, document, options, deadline)
    sys.stdout.write(output + "\n")
    return 0


def _read_seconds() -> float:
    text = os.environ.get("HANSEI_HOOK_SECONDS", str(SECONDS))
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"HANSEI_HOOK_SECONDS: {text!r} must be a number") from None


def _read_event() -> dict[str, object]:
    try:
        document = json.loads(sys.stdin.buffer.read())
    except ValueError as error:
        raise ValueError(f"stdin must be a JSON object: {error}") from error
    if not isinstance(document, dict):
        raise ValueError("stdin must be a JSON object")
    return document


def _parse_arguments(arguments: list[str]) -> tuple[HookAgent, dict[str, str]]:
    options = {
        "--dataset": os.environ.get("HANSEI_DATASET", DEFAULT_DATASET),
        "--url": os.environ.get(URL_VARIABLE, DEFAULT_URL),
        "--addr": os.environ.get("HANSEI_ADDR", ""),
    }
    names, values = arguments[1::2], arguments[2::2]
    if not arguments or arguments[0] not in AGENTS or len(names) != len(values) or set(names) - options.keys():
        raise ValueError(_USAGE)
    options.update(zip(names, values, strict=True))
    check_dataset(options["--dataset"])
    return AGENTS[arguments[0]], options


def check_dataset(dataset: str) -> None:
    """Raise ValueError unless a text can be the name of a dataset."""
    if not dataset.isascii() or not dataset.replace("-", "a").replace("_", "a").isalnum():
        raise ValueError(f"the dataset {dataset!r} must match [A-Za-z0-9_-]+")


def _ask_gateway(agent: HookAgent, document: dict[str, object], options: dict[str, str], deadline: float) -> str:
    """Return the output of the gateway, or the output for a session that continues without it."""
    mask = SecretMask(os.environ, ())
    event = {name: mask(document[name], name) for name in _FIELDS if name in document}
    url = f"{options['--url'].rstrip('/')}/v1/hooks/{agent.endpoint}?dataset={options['--dataset']}"
    try:
        token = os.environ.get("HANSEI_TOKEN", "")
        headers, body = post_json(url, json.dumps(event).encode(), token, deadline)
    except PostFailed as failure:
        return _skip_lessons(agent, document, f"hansei: {options['--url']}: {failure}; continuing without lessons")
    if serving := headers.get(SERVING_HEADER):
        from hansei.client.hooks.servings import store_serving

        try:
            store_serving(_get_session(document), options["--dataset"], serving)
        except OSError as error:
            sys.stderr.write(f"hansei: {error}; the outcome of this session cannot be reported\n")
    return body.decode("utf-8")


def _skip_lessons(agent: HookAgent, document: dict[str, object], notice: str) -> str:
    """Return output with which the agent works on without lessons, and with the notice for the user.

    If the agent does not show messages for this event, write the notice to its log."""
    name = document.get("hook_event_name")
    if agent.shows_messages and name in (agent.start, agent.prompt):
        return json.dumps({"systemMessage": notice})
    sys.stderr.write(notice + "\n")
    return json.dumps({"continue": True} if name == "beforeSubmitPrompt" else {})


def _begin_learning(agent: str, document: dict[str, object], options: dict[str, str]) -> None:
    """Start the process that learns from the transcript: agents end their hooks soon after the session."""
    from hansei.client.hooks.background import start_learner

    transcript = document.get("transcript_path")
    start_learner(
        agent=agent,
        session=_get_session(document),
        transcript=transcript if isinstance(transcript, str) else "",
        dataset=options["--dataset"],
        address=options["--addr"],
        is_over=document.get("hook_event_name") != "stop",
    )


def _get_session(document: dict[str, object]) -> str:
    return str(document.get("session_id") or document.get("conversation_id") or "")
