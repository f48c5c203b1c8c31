"""Requests as the OpenAPI document shows them; the tests send each."""

from __future__ import annotations

from typing import Any

OPTION: dict[str, Any] = {
    "label": "A案",
    "next_action": "見積の内訳を担当者に聞く",
    "necessary_info": "見積の内訳",
    "criteria_note": "費用と納期で比べる",
    "risks": ["納期が延びる"],
}

DASHBOARD: dict[str, Any] = {
    "trays": {"needs_decision": [{"id": "n1", "title": "見積の承認", "status": "NEEDS_DECISION"}], "in_progress": []}
}

ADVISOR_REPORT: dict[str, Any] = {
    "target_node_id": "n1",
    "target_title": "見積の承認",
    "current_status": "NEEDS_DECISION",
    "options": [OPTION, {**OPTION, "label": "B案"}],
    "criteria": [
        {"name": "費用", "description": "予算に収まるか"},
        {"name": "納期", "description": "今月中に間に合うか"},
    ],
    "next_decision": "どちらの見積で進めるか",
    "summary": "二つの案を費用と納期で比べました。",
}

LEARN: dict[str, Any] = {
    "request_id": "0b6c4f6e-6c0a-4a2e-9f27-6d1c5b8f0a11",
    "dataset": "http-example",
    "ground_truth": "42",
    "trajectory": {
        "id": "run-1",
        "dataset": "http-example",
        "query": "6 times 7?",
        "generated_answer": "41",
        "status": "TRAJECTORY_STATUS_FAILURE",
    },
}

FILE = """[{"role": "user", "content": "6 times 7?"}, {"role": "assistant", "content": "41"}]"""

JOB: list[dict[str, Any]] = [
    {"head": {"request_id": "5d0c9d0e-3a4e-4b57-8c0c-0d8f3f5f2c01", "dataset": "http-example"}},
    {"batch": {"trajectories": [{"trajectory": {**LEARN["trajectory"], "id": "run-2"}, "ground_truth": "42"}]}},
]

CANCEL_JOB: dict[str, Any] = {"request_id": "5d0c9d0e-3a4e-4b57-8c0c-0d8f3f5f2c02"}

RETRY_JOB: dict[str, Any] = {"request_id": "5d0c9d0e-3a4e-4b57-8c0c-0d8f3f5f2c03"}

SEARCH: dict[str, Any] = {
    "dataset": "http-example",
    "query": {"query_text": "commit fails without an identity", "top_k": 5},
}

ANSWER: dict[str, Any] = {"query": "How do I make the first commit?", "dataset": "http-example"}

BATCH_SEARCH: dict[str, Any] = {
    "dataset": "http-example",
    "queries": [{"query_text": "commit fails"}, {"query_text": "locked database", "top_k": 3}],
}

DELTAS: dict[str, Any] = {
    "request_id": "5c0a4b86-1f0f-4b8f-9b52-2a5f6c1d7e01",
    "deltas": [
        {"type": "DELTA_TYPE_ADD", "section": "git", "content": "Set user.email.", "reasoning": "A commit failed."}
    ],
    "author": "ann",
    "reason": "seen in review",
}

RESTORE: dict[str, Any] = {
    "request_id": "5c0a4b86-1f0f-4b8f-9b52-2a5f6c1d7e02",
    "revision": "0",
    "author": "ann",
    "reason": "start again",
}

REVOKE: dict[str, Any] = {
    "request_id": "5c0a4b86-1f0f-4b8f-9b52-2a5f6c1d7e03",
    "trajectory_id": "run-1",
    "dry_run": True,
}

DECIDE: dict[str, Any] = {
    "request_id": "5c0a4b86-1f0f-4b8f-9b52-2a5f6c1d7e04",
    "ids": ["p-00001"],
    "decision": "DECISION_REJECT",
    "author": "ann",
    "reason": "true only once",
}

POLICY: dict[str, Any] = {
    "request_id": "5c0a4b86-1f0f-4b8f-9b52-2a5f6c1d7e05",
    "policy": {"review_mode": "REVIEW_MODE_TIERED", "max_bullets": 500},
}

CREATE_PLAN: dict[str, Any] = {"query": "Which colour sells best, and why?"}

PLAN: dict[str, Any] = {
    "plan_id": "0c1d2e3f4a5b",
    "original_query": "What colour?",
    "complexity": 0.5,
    "steps": [
        {"step_id": 1, "action": "ACTION_ASK_USER", "description": "ask", "query": "Which colour do you want?"},
    ],
}

REFINE_PLAN: dict[str, Any] = {"plan": PLAN, "feedback": "fewer steps"}

DRAW_PLAN: dict[str, Any] = {"plan": PLAN}

EXECUTE_PLAN: dict[str, Any] = {"request_id": "5c0a4b86-1f0f-4b8f-9b52-2a5f6c1d7e06", "plan": PLAN}

RESUME_PLAN: dict[str, Any] = {
    "request_id": "5c0a4b86-1f0f-4b8f-9b52-2a5f6c1d7e07",
    "answer_token": "the token of the question",
    "plan_version": 1,
    "step_id": 1,
    "response": {"user_input": "red"},
}

CANCEL: dict[str, Any] = {"request_id": "5c0a4b86-1f0f-4b8f-9b52-2a5f6c1d7e08", "reason": "changed my mind"}

INFORMATION: dict[str, Any] = {"request_id": "5c0a4b86-1f0f-4b8f-9b52-2a5f6c1d7e09", "text": "Blue is sold out."}

CREATE_KEY: dict[str, Any] = {"label": "ci", "tenant": "acme", "scopes": ["ACCESS_SCOPE_READ", "ACCESS_SCOPE_LEARN"]}

ROUNDS: dict[str, Any] = {
    "user_prompt": "How does one keep a changelog?",
    "max_rounds": 1,
    "teams": [{"team_id": "short", "team_name": "Short", "instruction": "Answer in three sentences."}],
}

_TEXTS = {"type": "array", "items": {"type": "string"}}


def _documented(request: dict[str, Any], response: dict[str, Any], example: dict[str, Any]) -> dict[str, Any]:
    """An operation of an endpoint that reads and writes plain JSON."""
    answer = {"type": "object", "properties": response, "required": [name for name in response if name != "rendered"]}
    body = {"application/json": {"schema": request, "example": example}}
    answers = {"application/json": {"schema": answer}}
    return {
        "requestBody": {"required": True, "content": body},
        "responses": {
            "200": {"description": "The outcome.", "content": answers},
            "400": {"description": "The body breaks a rule that `errors` names.", "content": answers},
            "500": {"description": "A key is missing, or something failed; `errors` says what.", "content": answers},
        },
    }


DASHBOARD_RUN = _documented(
    {
        "type": "object",
        "required": ["dashboard"],
        "properties": {
            "dashboard": {"type": "object", "description": "Object with `trays`, an object of arrays of nodes."},
            "focusNodeId": {"type": ["string", "null"]},
            "userIntent": {"type": ["string", "null"]},
            "constraints": {"anyOf": [{"type": ["string", "null"]}, _TEXTS]},
        },
    },
    {
        "ok": {"type": "boolean"},
        "report": {"type": ["object", "null"]},
        "errors": _TEXTS,
        "warnings": _TEXTS,
        "rendered": {"type": "string", "description": "The report as text for people; only when ok."},
    },
    {"dashboard": DASHBOARD, "focusNodeId": "n1", "userIntent": "今週中に決めたい"},
)

REPORT_VALIDATION = _documented(
    {
        "type": "object",
        "required": ["type", "report"],
        "properties": {
            "type": {"enum": ["organizer", "advisor"]},
            "report": {"description": "The report as it is; anything that is no object is an error of validation."},
            "validNodeIds": {"type": ["array", "null"], "items": {"description": "Anything but a string is dropped."}},
        },
    },
    {"ok": {"type": "boolean"}, "errors": _TEXTS, "warnings": _TEXTS},
    {"type": "advisor", "report": ADVISOR_REPORT, "validNodeIds": ["n1"]},
)
