"""The endpoint `POST /v1/hooks/{agent}`: a hook of a coding agent posts its input and gets its output."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse
from starlette.requests import Request

from chassis.server import validation
from gateway.http.call_checks import GuardedCalls
from gateway.http.calls import ContractCalls
from gateway.http.json_codec import parse_object
from gateway.orchestrator.hooks.advice import SessionAdvice
from gateway.orchestrator.hooks.events import Agent, HookEvent, Moment, read_event
from gateway.orchestrator.hooks.replies import build_context_reply, build_verdict_reply
from hansei.evidence.v1 import evidence_service_pb2 as evidence

RECALL = evidence.DESCRIPTOR.services_by_name["EvidenceService"].methods_by_name["Recall"]
SERVING_HEADER = "x-hansei-serving-id"
"""The response header with the serving, under which `hansei hook` reports the outcome of the session."""
MAX_BULLETS = 5

_EXAMPLE = {
    "hook_event_name": "UserPromptSubmit",
    "session_id": "5d0c9d0e-3a4e-4b57-8c0c-0d8f3f5f2c01",
    "cwd": "/home/me/shop",
    "transcript_path": "/home/me/.claude/projects/-home-me-shop/5d0c9d0e-3a4e-4b57-8c0c-0d8f3f5f2c01.jsonl",
    "prompt": "Add a package",
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object"}, "example": _EXAMPLE}},
    }
}


def build_routes(calls: ContractCalls) -> APIRouter:
    """Return the endpoint of hooks."""
    router = APIRouter()
    advice, guarded = SessionAdvice(), GuardedCalls(calls)

    @router.post(
        "/v1/hooks/{agent}",
        tags=["hooks"],
        operation_id="Hooks_HandleEvent",
        summary="Answer a hook of a coding agent",
        response_model=dict[str, Any],
        openapi_extra=_BODY,
    )
    async def handle_event(
        agent: Agent, request: Request, dataset: Annotated[str, Query(description="The dataset.")]
    ) -> Any:
        """Return the reply in the form that the agent expects on the standard output of its hook.

        At the start of a session and at a prompt: the bullets that Recall returns, as additional context. Before a
        tool call: the verdict of the guards, which know the prompts and results that were posted before. Other events
        get an empty object. The file of the transcript is not read.
        """
        event = read_event(agent, parse_object(await request.body()))
        if event.moment is Moment.TOOL_CALL:
            return JSONResponse(build_verdict_reply(event, await guarded.check(request, dataset, event)))
        if event.moment in (Moment.PROMPT, Moment.TOOL_RESULT):
            await guarded.report(request, dataset, event)
        if not event.query:
            return JSONResponse(build_context_reply(event, ""))
        response = await recall(request, dataset, event)
        headers = {SERVING_HEADER: response.serving_id} if response.serving_id else {}
        return JSONResponse(build_context_reply(event, advice.build_text(dataset, event, response)), headers=headers)

    async def recall(request: Request, dataset: str, event: HookEvent) -> evidence.RecallResponse:
        message = evidence.RecallRequest(
            dataset=dataset,
            session_id=event.session_id,
            query_text=event.query,
            top_k=MAX_BULLETS,
            allow_missing=True,
        )
        validation.check(message)
        return evidence.RecallResponse.FromString(await calls.unary(RECALL, request, message))

    return router
