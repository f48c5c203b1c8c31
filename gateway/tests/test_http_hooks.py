"""`POST /v1/hooks/{agent}`: the requests and the replies of each agent, as its documentation has them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chassis.errors import InvalidArgument, Unavailable, Violation
from gateway.tests.scripted_http import Peers, client_of
from hansei.evidence.v1 import evidence_service_pb2 as evidence
from hansei.evidence.v1 import guard_service_pb2 as guards
from hansei.playbook.v1 import playbook_pb2
from hansei.search.v1 import search_pb2

COMMON = {"session_id": "s-1", "cwd": "/home/me/shop", "transcript_path": "/home/me/t.jsonl"}
CURSOR = {
    "conversation_id": "c-1",
    "generation_id": "g-1",
    "model": "default",
    "cursor_version": "3.20.17",
    "workspace_roots": ["/home/me/shop"],
    "transcript_path": None,
}
CLAUDE_PROMPT = {
    **COMMON,
    "hook_event_name": "UserPromptSubmit",
    "permission_mode": "default",
    "prompt": "add a package",
}
CALL = {"tool_name": "Bash", "tool_input": {"command": "npm install left-pad"}, "tool_use_id": "toolu_1"}


def peers_with(*contents: str, serving: str = "") -> Peers:
    results = [
        search_pb2.SearchResult(bullet=playbook_pb2.Bullet(id=f"b-{number}", content=content))
        for number, content in enumerate(contents, 1)
    ]
    return Peers(answers={"Recall": [evidence.RecallResponse(results=results, revision=7, serving_id=serving)]})


async def post(peers: Peers, agent: str, event: dict[str, Any], dataset: str = "coding", **options: Any) -> Any:
    async with client_of(peers, **options) as client:
        return await client.post(f"/v1/hooks/{agent}", params={"dataset": dataset}, json=event)


LESSON = (
    "Lessons from earlier sessions (playbook coding, revision 7). Follow those that fit the task:\n"
    "- [b-1] Run pnpm add, not npm install."
)


@pytest.mark.parametrize(
    ("agent", "event", "reply"),
    [
        (
            "claude-code",
            CLAUDE_PROMPT,
            {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": LESSON}},
        ),
        (
            "claude-code",
            {**COMMON, "hook_event_name": "SessionStart", "source": "startup"},
            {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": LESSON}},
        ),
        (
            "codex",
            {**CLAUDE_PROMPT, "turn_id": "t-1", "model": "gpt-5"},
            {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": LESSON}},
        ),
        ("cursor", {**CURSOR, "hook_event_name": "sessionStart"}, {"additional_context": LESSON}),
        (
            "cursor",
            {**CURSOR, "hook_event_name": "beforeSubmitPrompt", "prompt": "add a package", "attachments": []},
            {"continue": True, "additional_context": LESSON},
        ),
    ],
)
async def test_the_bullets_are_the_context_of_the_model(agent: str, event: dict[str, Any], reply: Any) -> None:
    peers = peers_with("Run pnpm add,\n  not npm install.", serving="serving-1")
    response = await post(peers, agent, event)
    assert (response.status_code, response.json()) == (200, reply)
    assert response.headers["x-hansei-serving-id"] == "serving-1"
    (recall,) = (request for request in peers.requests if isinstance(request, evidence.RecallRequest))
    assert (recall.dataset, recall.allow_missing) == ("coding", True)
    assert recall.session_id == event.get("session_id", "c-1")
    assert recall.query_text == event.get("prompt", "Work on shop")


async def test_a_session_gets_each_bullet_once_until_its_context_is_cleared() -> None:
    peers = peers_with("Run pnpm add.")
    async with client_of(peers) as client:

        async def ask(event: dict[str, Any]) -> Any:
            return (await client.post("/v1/hooks/claude-code?dataset=coding", json=event)).json()

        assert "pnpm" in str(await ask(CLAUDE_PROMPT))
        assert await ask(CLAUDE_PROMPT) == {}
        assert "pnpm" in str(await ask({**CLAUDE_PROMPT, "session_id": "s-2"}))
        assert "pnpm" in str(await ask({**COMMON, "hook_event_name": "SessionStart", "source": "compact"}))
        assert await ask(CLAUDE_PROMPT) == {}


async def test_bullets_that_do_not_fit_into_the_context_are_omitted() -> None:
    text = str((await post(peers_with(*["x" * 3_000] * 5), "claude-code", CLAUDE_PROMPT)).json())
    assert "[b-2]" in text
    assert "[b-3]" not in text


async def test_without_bullets_nothing_is_added() -> None:
    assert (await post(peers_with(), "claude-code", CLAUDE_PROMPT)).json() == {}
    cursor = {**CURSOR, "hook_event_name": "beforeSubmitPrompt", "prompt": "add a package"}
    assert (await post(peers_with(), "cursor", cursor)).json() == {"continue": True}


@pytest.mark.parametrize(
    ("agent", "event"),
    [
        ("claude-code", {**COMMON, "hook_event_name": "SessionEnd", "reason": "other"}),
        ("claude-code", {**CLAUDE_PROMPT, "prompt": "  "}),
        ("claude-code", {"session_id": "s-1", "hook_event_name": "SessionStart"}),
        ("codex", {**COMMON, "hook_event_name": "PreToolUse", **CALL}),
        ("cursor", {**CURSOR, "hook_event_name": "afterAgentThought", "text": "hm"}),
    ],
)
async def test_other_events_change_nothing_and_call_no_service(agent: str, event: dict[str, Any]) -> None:
    peers = peers_with("Run pnpm add.")
    response = await post(peers, agent, event)
    assert (response.status_code, response.json()) == (200, {})
    assert peers.requests == []


@pytest.mark.parametrize(
    ("event", "field"),
    [
        ({}, "hook_event_name"),
        ({"hook_event_name": 5}, "hook_event_name"),
        ({"hook_event_name": "UserPromptSubmit", "prompt": "p"}, "session_id"),
        ({"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": ["p"]}, "prompt"),
        ({"hook_event_name": "SessionStart", "session_id": "s", "cwd": 5}, "cwd"),
        ({"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_input": "ls"}, "tool_input"),
        ({"hook_event_name": "PreToolUse", "session_id": "s", "tool_input": {}}, "tool_name"),
    ],
)
async def test_an_event_of_another_shape_is_refused_with_its_field(event: dict[str, Any], field: str) -> None:
    response = await post(peers_with(), "claude-code", event)
    assert response.status_code == 400
    assert [violation["field"] for violation in response.json()["violations"]] == [field]


@pytest.mark.parametrize(("agent", "dataset", "status"), [("emacs", "coding", 422), ("codex", "a b", 400)])
async def test_an_unknown_agent_or_dataset_name_is_refused(agent: str, dataset: str, status: int) -> None:
    assert (await post(peers_with(), agent, CLAUDE_PROMPT, dataset)).status_code == status


MATCHES = [
    guards.GuardMatch(bullet_id="b-1", text="Run pnpm add, not npm install."),
    guards.GuardMatch(bullet_id="b-2", text="Ask before you add packages.", is_withheld=True),
]


@pytest.mark.parametrize(
    ("decision", "reply"),
    [
        (guards.GUARD_DECISION_ALLOW, {}),
        (guards.GUARD_DECISION_ADVISE, {"additionalContext": MATCHES[0].text}),
        (guards.GUARD_DECISION_ASK, {"permissionDecision": "ask", "permissionDecisionReason": MATCHES[0].text}),
        (guards.GUARD_DECISION_DENY, {"permissionDecision": "deny", "permissionDecisionReason": MATCHES[0].text}),
    ],
)
async def test_guards_decide_the_calls_of_claude_code(
    decision: guards.GuardDecision.ValueType, reply: dict[str, Any]
) -> None:
    peers = Peers(answers={"CheckCall": [guards.CheckCallResponse(decision=decision, matches=MATCHES)]})
    response = await post(peers, "claude-code", {**COMMON, "hook_event_name": "PreToolUse", **CALL})
    expected = {"hookSpecificOutput": {"hookEventName": "PreToolUse", **reply}} if reply else {}
    assert response.json() == expected
    (checked,) = peers.requests
    assert (checked.dataset, checked.session_id, checked.call.tool) == ("coding", "s-1", "Bash")
    assert json.loads(checked.call.arguments) == CALL["tool_input"]


@pytest.mark.parametrize(
    ("agent", "event"),
    [
        ("codex", {**COMMON, "hook_event_name": "PreToolUse", **CALL}),
        ("cursor", {**CURSOR, "hook_event_name": "preToolUse", **CALL}),
    ],
)
async def test_calls_of_agents_that_do_not_state_their_success_are_not_checked(
    agent: str, event: dict[str, Any]
) -> None:
    peers = Peers()
    assert (await post(peers, agent, event)).json() == {}
    assert peers.requests == []


async def test_results_and_prompts_are_reported_to_the_guards() -> None:
    peers = peers_with("Run pnpm add, not npm install.")
    peers.answers["ReportCall"] = [guards.ReportCallResponse(events=1)]
    failure = {**COMMON, "hook_event_name": "PostToolUseFailure", **CALL, "error": "Exit code 1"}
    success = {**COMMON, "hook_event_name": "PostToolUse", **CALL, "tool_response": {"stdout": "added"}}
    for event in (CLAUDE_PROMPT, failure, success):
        assert (await post(peers, "claude-code", event)).status_code == 200
    reports = [request for request in peers.requests if isinstance(request, guards.ReportCallRequest)]
    assert [message.text for message in reports[0].messages] == ["add a package"]
    assert [(report.call.tool, report.result, report.failed) for report in reports[1:]] == [
        ("Bash", "Exit code 1", True),
        ("Bash", '{"stdout": "added"}', False),
    ]


@pytest.mark.parametrize("method", ["CheckCall", "ReportCall"])
async def test_an_agent_continues_while_the_guards_are_unavailable(method: str) -> None:
    peers = peers_with("Run pnpm add, not npm install.")
    peers.raises[method] = Unavailable("evidence is unavailable")
    event = {**COMMON, "hook_event_name": "PreToolUse" if method == "CheckCall" else "PostToolUse", **CALL}
    response = await post(peers, "claude-code", event)
    assert (response.status_code, response.json()) == (200, {})


async def test_a_call_that_guards_refuse_to_read_is_not_allowed() -> None:
    rule = "session_id must not contain the character U+0000"
    peers = Peers(raises={"CheckCall": InvalidArgument(rule, violations=[Violation("session_id", rule)])})
    response = await post(peers, "claude-code", {**COMMON, "hook_event_name": "PreToolUse", **CALL, "session_id": "\0"})
    assert response.status_code == 400
    assert [violation["field"] for violation in response.json()["violations"]] == ["session_id"]


async def test_a_call_with_too_long_arguments_is_allowed_unchecked() -> None:
    peers = Peers()
    event = {**COMMON, "hook_event_name": "PreToolUse", "tool_name": "Write", "tool_input": {"content": "x" * 100_000}}
    assert (await post(peers, "claude-code", event)).json() == {}
    assert peers.requests == []
