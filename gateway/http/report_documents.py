"""What the OpenAPI document says of the endpoints under `/api`, whose bodies are no messages of the contract."""

from __future__ import annotations

from typing import Any

DASHBOARD: dict[str, Any] = {
    "trays": {"needs_decision": [{"id": "n1", "title": "見積の承認", "status": "NEEDS_DECISION"}], "in_progress": []}
}

_OPTION: dict[str, Any] = {
    "label": "A案",
    "next_action": "見積の内訳を担当者に聞く",
    "necessary_info": "見積の内訳",
    "criteria_note": "費用と納期で比べる",
    "risks": ["納期が延びる"],
}

_ADVISOR_REPORT: dict[str, Any] = {
    "target_node_id": "n1",
    "target_title": "見積の承認",
    "current_status": "NEEDS_DECISION",
    "options": [_OPTION, {**_OPTION, "label": "B案"}],
    "criteria": [
        {"name": "費用", "description": "予算に収まるか"},
        {"name": "納期", "description": "今月中に間に合うか"},
    ],
    "next_decision": "どちらの見積で進めるか",
    "summary": "二つの案を費用と納期で比べました。",
}

_TEXTS = {"type": "array", "items": {"type": "string"}}
_RESULT = {"ok": {"type": "boolean"}, "errors": _TEXTS, "warnings": _TEXTS}


def _documented(request: dict[str, Any], response: dict[str, Any], example: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": response, "required": [name for name in response if name != "rendered"]}
    answer = {"application/json": {"schema": schema}}
    return {
        "requestBody": {"required": True, "content": {"application/json": {"schema": request, "example": example}}},
        "responses": {
            "200": {"description": "The outcome.", "content": answer},
            "400": {"description": "The body breaks a rule that `errors` names.", "content": answer},
            "500": {"description": "A key is missing, or something failed; see `errors`.", "content": answer},
        },
    }


REPORT_RUN = _documented(
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
    _RESULT
    | {
        "report": {"type": ["object", "null"]},
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
    _RESULT,
    {"type": "advisor", "report": _ADVISOR_REPORT, "validNodeIds": ["n1"]},
)
