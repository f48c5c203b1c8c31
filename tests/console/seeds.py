"""Fill a hansei over HTTP and gRPC as if it had been in use for a while."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import grpc
import httpx
from google.protobuf.json_format import MessageToDict

from hansei.validator.v1 import evaluation_pb2, leaderboard_service_pb2, leaderboard_service_pb2_grpc

SECTIONS = ("strategies_and_hard_rules", "apis_to_use", "verification_checklist", "troubleshooting")
SUBJECTS = (
    "the invoice",
    "a locked database",
    "the access token",
    "an empty page",
    "the retry budget",
    "a stale cache",
)
LESSONS = (
    "Check {0} before the first call; a refusal costs a turn, and the answer never says why it was refused ({1}).",
    "When {0} comes back twice, read it again from the source and compare before anything is written ({1}).",
    "Ask for {0} page by page until the token is empty. The first page is never all there is ({1}).",
    "Never guess at {0}: call the tool that lists them and take the one whose name is equal, not alike ({1}).",
)
MOST = 1_000


class Seeds:
    """Fill a running hansei over HTTP, and its leaderboard over gRPC, which alone writes entries."""

    def __init__(self, http: httpx.Client, address: str) -> None:
        self._http = http
        self._address = address

    def playbook(self, dataset: str, bullets: int) -> list[str]:
        """Add a playbook of this size with votes and a few later revisions; return the ids of its bullets in order."""
        for first in range(0, bullets, MOST):
            self.deltas(dataset, [lesson(number) for number in range(first, min(bullets, first + MOST))], "import")
        ids = self._ids(dataset)
        self.deltas(dataset, [], "votes of one week", votes=list(_votes(ids[: MOST // 2])))
        edits = [
            {"type": "DELTA_TYPE_UPDATE", "bullet_id": bullet_id, "content": f"Shorter: check {bullet_id} first."}
            for bullet_id in ids[:3]
        ]
        self.deltas(dataset, edits, "shorter")
        return ids

    def deltas(self, dataset: str, deltas: Sequence[Any], reason: str, votes: Sequence[Any] = ()) -> dict[str, Any]:
        """Apply one edit and return the curator's response."""
        body = {
            "deltas": deltas,
            "votes": votes,
            "reason": reason,
            "author": "seed",
            "source_trajectory": f"run-{reason}",
        }
        return self.post(f"/v1/playbooks/{dataset}/deltas", {"request_id": str(uuid.uuid4()), **body})

    def queue(self, dataset: str, changes: int, sources: Sequence[Any] = ()) -> None:
        """Create a dataset with a policy of review and pending changes; the bullet of the first one changed meanwhile.

        `sources` are those of the first change.
        """
        self.deltas(dataset, [lesson(number) for number in range(3)], "begin")
        first, second, _ = self._ids(dataset)
        self.set_policy(dataset, "REVIEW_MODE_REVIEW")
        edits = [
            {
                "type": "DELTA_TYPE_UPDATE",
                "bullet_id": first,
                "content": "Check the invoice first, then the total.",
                "reasoning": "said so twice",
                "sources": list(sources),
            },
            {"type": "DELTA_TYPE_DELETE", "bullet_id": second, "reasoning": "it harmed"},
        ]
        self.deltas(dataset, [*edits, *(lesson(10 + number) for number in range(changes - len(edits)))], "proposal")
        self.set_policy(dataset, "REVIEW_MODE_AUTO")
        self.deltas(
            dataset,
            [{"type": "DELTA_TYPE_UPDATE", "bullet_id": first, "content": "Check the invoice, always."}],
            "meanwhile",
        )

    def trials(self, dataset: str, sessions: int) -> None:
        """Run trials of three bullets, the first of which decides whether a session succeeds."""
        revision = self.deltas(dataset, [lesson(number) for number in range(3)], "begin")["revision"]
        decisive = next(self._bullets(dataset))["id"]
        self.post(f"/v1/playbooks/{dataset}/trials/start", {"request_id": str(uuid.uuid4())})
        for number in range(sessions):
            query = {"session_id": f"session-{number}", "query_text": "locked database", "min_revision": revision}
            recalled = self.post("/v1/recall", {"dataset": dataset, **query})
            succeeded = decisive in [result["bullet"]["id"] for result in recalled["results"]]
            report = {"serving_id": recalled["serving_id"], "succeeded": succeeded}
            self.post("/v1/outcomes", {"dataset": dataset, **report})

    def archive(self, dataset: str, trajectory: dict[str, Any], learned: Sequence[str] = ()) -> None:
        """Store a trajectory in the archive of a dataset."""
        body = {"trajectory": {"dataset": dataset, **trajectory}, "learned_bullet_ids": list(learned)}
        assert self.post(f"/v1/playbooks/{dataset}/trajectories", body)["stored"]

    def rounds(self, execution_id: str, teams: int, rounds: int, text: str = "A submission.") -> None:
        """A finished competition."""
        with grpc.insecure_channel(self._address) as channel:
            board = leaderboard_service_pb2_grpc.LeaderboardServiceStub(channel)
            for team in range(teams):
                for number in range(1, rounds + 1):
                    board.UpsertLeaderboardEntry(_entry(execution_id, team, number, number == rounds, text))

    def execution(self, query: str, *, confirm: bool = False, steps: Sequence[Any] | None = None) -> str:
        """An execution that has run as far as it goes by itself; its id."""
        plan = self.post("/v1/plans", {"query": query})["plan"]
        plan["requires_confirmation"] = confirm
        if steps is not None:
            plan["steps"] = list(steps)
            plan["estimated_steps"] = len(steps)
        body = {"request_id": str(uuid.uuid4()), "plan": plan}
        response = self._http.post("/v1/executions", json=body)
        assert response.status_code == 200, response.text
        return str(plan["plan_id"])

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a POST that goes well."""
        response = self._http.post(path, json=body)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def _ids(self, dataset: str) -> list[str]:
        return [bullet["id"] for bullet in self._bullets(dataset)]

    def _bullets(self, dataset: str) -> Iterator[dict[str, Any]]:
        token = ""
        while True:
            query: dict[str, str | int] = {"page_size": MOST, "page_token": token}
            page = self._http.get(f"/v1/playbooks/{dataset}/bullets", params=query).json()
            yield from page["bullets"]
            token = page["next_page_token"]
            if not token:
                return

    def set_policy(self, dataset: str, mode: str) -> None:
        """Set the review mode of a dataset, and otherwise the defaults."""
        body = {"request_id": str(uuid.uuid4()), "policy": {"review_mode": mode}}
        assert self._http.put(f"/v1/playbooks/{dataset}/policy", json=body).status_code == 200


def submit_job(url: str, dataset: str, trajectories: Sequence[Any]) -> str:
    """Submit a job as another program would, and return its id."""
    written = [
        {"trajectory": MessageToDict(trajectory, preserving_proto_field_name=True)} for trajectory in trajectories
    ]
    parts = [
        {"head": {"request_id": str(uuid.uuid4()), "dataset": dataset}},
        {"batch": {"trajectories": written}},
    ]
    made = httpx.post(f"{url}/v1/jobs", json=parts, timeout=60).raise_for_status().json()
    return str(made["job"]["job_id"])


def failed_push(trajectory_id: str) -> dict[str, Any]:
    """Return a trajectory that fails at its step 3: the push is refused."""
    return {
        "id": trajectory_id,
        "query": "Push the fix of the parser",
        "status": "TRAJECTORY_STATUS_FAILURE",
        "signal": "SIGNAL_STRENGTH_TEST_REPORT",
        "generated_answer": "The push was refused.",
        "steps": [
            {"role": "STEP_ROLE_SYSTEM", "content": "You maintain a repository."},
            {"role": "STEP_ROLE_USER", "content": "Push the fix of the parser"},
            _call("1", "git", '{"args": ["push", "origin", "main"], "timeout": 30}', "I push the commit."),
            _result("1", "git", "exit code 1\nerror: failed to push some refs to 'origin'"),
            _call("2", "read_file", '{"path": "CONTRIBUTING.md"}'),
            _result("2", "read_file", "Pull and rebase before a push.\n" * 3),
            {"role": "STEP_ROLE_ASSISTANT", "content": "The push was refused."},
        ],
    }


def passed_sum(number: int) -> dict[str, Any]:
    """A short trajectory that succeeds; every number another one."""
    return {
        "id": f"sum-{number}",
        "query": f"Add {number} and 1",
        "status": "TRAJECTORY_STATUS_SUCCESS",
        "reward": 1,
        "generated_answer": str(number + 1),
        "steps": [_call("1", "add", f'{{"x": {number}}}'), _result("1", "add", str(number + 1))],
    }


def _call(call_id: str, tool: str, arguments: str, content: str = "") -> dict[str, Any]:
    call = {"id": call_id, "name": tool, "arguments": arguments}
    return {"role": "STEP_ROLE_ASSISTANT", "content": content, "tool_calls": [call]}


def _result(call_id: str, tool: str, content: str) -> dict[str, Any]:
    return {"role": "STEP_ROLE_TOOL", "name": tool, "tool_call_id": call_id, "content": content}


def lesson(number: int) -> dict[str, Any]:
    """An ADD of one lesson; every number another one."""
    text = LESSONS[number % len(LESSONS)].format(SUBJECTS[number % len(SUBJECTS)], number)
    return {"type": "DELTA_TYPE_ADD", "section": SECTIONS[number % len(SECTIONS)], "content": text, "reasoning": "seen"}


def _votes(ids: Sequence[str]) -> Iterator[dict[str, Any]]:
    for number, bullet_id in enumerate(ids):
        for run in range(number % 4):
            tag = "VOTE_TAG_HARMFUL" if (number + run) % 5 == 0 else "VOTE_TAG_HELPFUL"
            yield {"bullet_id": bullet_id, "tag": tag, "trajectory_id": f"run-{run}", "reason": "it was used"}


def _entry(
    execution_id: str, team: int, number: int, final: bool, text: str
) -> leaderboard_service_pb2.UpsertLeaderboardEntryRequest:
    score = (team * 37 + number * 11) % 70 + 30
    metrics = [
        evaluation_pb2.MetricScore(metric_name="Coverage", score=score, evaluator_comment="Most of it is there.")
    ]
    return leaderboard_service_pb2.UpsertLeaderboardEntryRequest(
        request_id=str(uuid.uuid4()),
        entry=leaderboard_service_pb2.LeaderBoardEntry(
            key=leaderboard_service_pb2.RoundKey(
                execution_id=execution_id, team_id=f"team-{team}", round_number=number
            ),
            team_name=f"Team {team}",
            submission_content=text,
            score=score,
            score_details=evaluation_pb2.EvaluationResult(metrics=metrics, overall_score=score),
            final_submission=final,
            exit_reason="max_rounds_reached" if final else None,
        ),
    )


def comparison(dataset: str) -> list[dict[str, Any]]:
    """Steps that search a playbook and compare; the first results are too uncertain to continue without a question."""
    search: dict[str, Any] = {"action": "ACTION_RAG_SEARCH", "collection": dataset}
    return [
        {"step_id": 1, "description": "Find databases", "query": "a locked database", **search},
        {"step_id": 2, "description": "Find tokens", "query": "the access token", **search},
        {"step_id": 3, "action": "ACTION_REASONING", "description": "Compare both", "depends_on": [1, 2]},
        {"step_id": 4, "description": "Find budgets", "query": "the retry budget", "depends_on": [1], **search},
        {"step_id": 5, "action": "ACTION_REASONING", "description": "Answer", "depends_on": [1, 3, 4]},
    ]
