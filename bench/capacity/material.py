"""Requests of three sizes, each with a number of its own, so that no cache answers them."""

from __future__ import annotations

import json
import random
import uuid
from dataclasses import dataclass

from bench.loop import WORDS
from hansei.evidence.v1 import evidence_service_pb2 as evidence
from hansei.evidence.v1 import guard_service_pb2 as guard
from hansei.gateway.v1 import gateway_service_pb2 as gateway
from hansei.planner.v1 import planner_pb2 as plans
from hansei.planner.v1 import planner_service_pb2 as planner
from hansei.playbook.v1 import playbook_pb2 as playbook
from hansei.playbook.v1 import playbook_service_pb2 as playbooks
from hansei.reflector.v1 import trajectory_pb2 as trajectories
from hansei.search.v1 import search_pb2 as searches
from hansei.search.v1 import search_service_pb2 as search
from hansei.validator.v1 import validator_service_pb2 as validator

BULLET_WORDS, QUERY_WORDS, RESULT_WORDS = 12, 6, 40
BATCH = 250
REASON = "範囲が広く担当も分かれているため、いったん分けて考えられます"


@dataclass(frozen=True, slots=True)
class Size:
    """The bullets of a playbook, and the steps of a trajectory; a playbook has as many guards as those have steps."""

    name: str
    bullets: int
    steps: int

    @property
    def dataset(self) -> str:
        """Return the name of the dataset of this size."""
        return f"capacity-{self.name}"

    @property
    def plan_steps(self) -> int:
        """Return the steps of a plan, which has at most twenty."""
        return min(self.steps, 20)


SIZES = (Size("small", 100, 5), Size("medium", 1_000, 30), Size("large", 10_000, 100))


def build_words(count: int, seed: object) -> str:
    """Return words, the same for the same seed."""
    return " ".join(random.Random(str(seed)).choices(WORDS, k=count))


def build_fill(size: Size) -> list[playbooks.ApplyDeltasRequest]:
    """Return the requests that fill the playbook of a size; its first bullets are guards that never match."""
    requests = []
    for start in range(0, size.bullets, BATCH):
        deltas = []
        for number in range(start, min(start + BATCH, size.bullets)):
            target = None
            if number < size.steps:
                target = playbook.Target(
                    expression=f"count(call.tool) > {number + 1_000}", mode=playbook.TARGET_MODE_DENY, pinned=True
                )
            content = build_words(BULLET_WORDS, (size.name, number))
            deltas.append(
                playbook.Delta(type=playbook.DELTA_TYPE_ADD, section="capacity", content=content, target=target)
            )
        request = playbooks.ApplyDeltasRequest(
            request_id=str(uuid.uuid4()), dataset=size.dataset, deltas=deltas, reason="capacity"
        )
        requests.append(request)
    return requests


def build_search(size: Size, number: int, min_revision: int = 0) -> search.SearchRequest:
    """Return a search for five bullets."""
    query = searches.SearchQuery(query_text=build_words(QUERY_WORDS, ("search", size.name, number)), top_k=5)
    return search.SearchRequest(dataset=size.dataset, query=query, min_revision=min_revision)


def build_recall(size: Size, number: int) -> evidence.RecallRequest:
    """Return the recall of a new session."""
    query = build_words(QUERY_WORDS, ("recall", size.name, number))
    return evidence.RecallRequest(dataset=size.dataset, session_id=f"session-{number}", query_text=query, top_k=5)


def build_answer(size: Size, number: int) -> gateway.AnswerRequest:
    """Return a question."""
    return gateway.AnswerRequest(query=build_words(QUERY_WORDS, ("answer", size.name, number)), dataset=size.dataset)


def build_check(size: Size, number: int) -> guard.CheckCallRequest:
    """Return a tool call of the session that has reported as many calls as a trajectory has steps, and knows it."""
    call = guard.GuardedCall(tool=f"tool-{number % 7}", arguments=json.dumps({"id": f"A-{number}"}))
    return guard.CheckCallRequest(dataset=size.dataset, session_id="guarded", call=call, min_events=size.steps)


def build_report(size: Size, number: int, session_id: str = "guarded") -> guard.ReportCallRequest:
    """Return a tool call with its result."""
    call = guard.GuardedCall(tool=f"tool-{number % 7}", arguments=json.dumps({"id": f"A-{number}"}))
    result = build_words(RESULT_WORDS, ("result", number))
    return guard.ReportCallRequest(
        request_id=str(uuid.uuid4()), dataset=size.dataset, session_id=session_id, call=call, result=result
    )


def build_delta(size: Size, number: int) -> playbooks.ApplyDeltasRequest:
    """Return the addition of one bullet."""
    content = build_words(BULLET_WORDS, ("delta", size.name, number))
    delta = playbook.Delta(type=playbook.DELTA_TYPE_ADD, section="capacity", content=content)
    return playbooks.ApplyDeltasRequest(request_id=str(uuid.uuid4()), dataset=size.dataset, deltas=[delta])


def build_trajectory(size: Size, number: int, what: str) -> trajectories.Trajectory:
    """Return a failed trajectory: pairs of a tool call and its result, the last of which is an error of its own."""
    steps = []
    for position in range(size.steps // 2):
        call = trajectories.ToolCall(
            id=str(position), name=f"tool-{position % 7}", arguments=json.dumps({"id": f"A-{position}"})
        )
        is_last = position == size.steps // 2 - 1
        content = build_words(RESULT_WORDS, (number, position))
        if is_last:
            content = f"exit code 1\nfatal: {build_words(4, (what, size.name, number))}: no such thing"
        steps += [
            trajectories.Step(role=trajectories.STEP_ROLE_ASSISTANT, tool_calls=[call]),
            trajectories.Step(role=trajectories.STEP_ROLE_TOOL, name=call.name, tool_call_id=call.id, content=content),
        ]
    return trajectories.Trajectory(
        id=f"{what}-{size.name}-{number}",
        dataset=size.dataset,
        query=build_words(QUERY_WORDS, (what, number)),
        status=trajectories.TRAJECTORY_STATUS_FAILURE,
        reward=0.0,
        steps=steps,
    )


def build_plan(size: Size) -> planner.RunPlanRequest:
    """Return a plan of searches that depend on nothing."""
    steps = [
        plans.PlanStep(
            step_id=number + 1,
            action=plans.ACTION_RAG_SEARCH,
            description="search",
            query=build_words(QUERY_WORDS, uuid.uuid4()),
            collection=size.dataset,
        )
        for number in range(size.plan_steps)
    ]
    return planner.RunPlanRequest(plan=plans.Plan(original_query="capacity", complexity=0.5, steps=steps))


def build_report_of_a_team(size: Size, number: int) -> validator.ValidateReportRequest:
    """Return a report of an organizer with a proposal for each step."""
    nodes = [f"n{position}" for position in range(size.steps)]
    proposals = [
        {
            "target_node_id": node,
            "target_title": f"企画 {number}",
            "reason": REASON,
            "suggested_children": [{"title": "下調べ", "context": "現状を書き出す"}],
        }
        for node in nodes
    ]
    report = {
        "decomposition_proposals": proposals,
        "grouping_proposals": [],
        "relation_proposals": [],
        "summary": f"まず{REASON}",
    }
    return validator.ValidateReportRequest(
        type="organizer", report_json=json.dumps(report, ensure_ascii=False), valid_node_ids=nodes
    )
