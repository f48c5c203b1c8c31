"""The MCP server: four tools and a resource that use a client of hansei."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from hansei.client.client import AsyncClient
from hansei.client.errors import HanseiError
from hansei.client.recording import bullet_lines
from hansei.client.trajectories import TrajectoryRecord
from hansei.mcp_server import answers
from hansei.playbook.v1.playbook_pb2 import VOTE_TAG_HARMFUL, VOTE_TAG_HELPFUL, VOTE_TAG_NEUTRAL, Vote

INSTRUCTIONS = (
    "A memory of lessons from earlier trajectories of agents. Before a task, call search_playbook with what you are "
    "about to do, and cite a lesson as [id] where you act on it. After the task, call learn_from_trajectory with the "
    "conversation and its outcome. If you know that a lesson helped or harmed, call vote."
)

Query = Annotated[str, Field(min_length=1, max_length=100_000, description="Your next action, or a problem.")]
Dataset = Annotated[
    str, Field(max_length=128, description="The name of the playbook; empty for the default of this server.")
]
TopK = Annotated[int, Field(ge=1, le=100, description="The most lessons to return.")]
Section = Annotated[str, Field(max_length=256, description="Return only lessons of this section; empty for all.")]
Limit = Annotated[int, Field(ge=1, le=1_000, description="The most lessons to return.")]
BulletId = Annotated[str, Field(min_length=1, max_length=128, description="The id of the lesson.")]
Verdict = Annotated[Literal["helpful", "harmful", "neutral"], Field(description="The effect of the lesson.")]
TrajectoryId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=256,
        description="The trajectory that shows the effect: one vote on a lesson counts for each trajectory.",
    ),
]
Reason = Annotated[str, Field(max_length=20_000, description="The reason, in a sentence.")]
Messages = Annotated[
    list[dict[str, Any]],
    Field(
        min_length=1,
        max_length=10_000,
        description="The conversation in order, with tool calls and their results, in the format of OpenAI, Anthropic "
        'or LangChain: [{"role": "user", "content": "…"}, {"role": "assistant", "tool_calls": […]}, '
        '{"role": "tool", …}].',
    ),
]
Succeeded = Annotated[bool, Field(description="True if the task was done.")]
TestReport = Annotated[
    str,
    Field(
        max_length=1_000_000,
        description="The report of a test or of the environment, word for word. Without a report, votes on the lessons "
        "that you cited do not count.",
    ),
]
UsedIds = Annotated[list[str], Field(max_length=1_000, description="The ids of the lessons from search_playbook.")]
CitedIds = Annotated[list[str], Field(max_length=1_000, description="The ids of the lessons that you acted on.")]


def create_server(client: AsyncClient, dataset: str = "") -> MCPServer[Any]:
    """Return the server for a client; `dataset` is the playbook of tool calls that name none."""
    server: MCPServer[Any] = MCPServer(
        "hansei", instructions=INSTRUCTIONS, version=version("hansei"), log_level="WARNING", subscriptions=False
    )
    tools = _PlaybookTools(client, dataset)
    read_only = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    # The content of a trajectory, and the trajectory of a vote, are the idempotency keys.
    idempotent = ToolAnnotations(
        read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    server.tool(annotations=read_only)(tools.search_playbook)
    server.tool(annotations=read_only)(tools.read_playbook)
    server.tool(annotations=idempotent)(tools.learn_from_trajectory)
    server.tool(annotations=idempotent)(tools.vote)
    server.resource("playbook://{dataset}", name="playbook", mime_type="text/plain")(tools.playbook_text)
    return server


class _PlaybookTools:
    """The tools; models read their docstrings."""

    def __init__(self, client: AsyncClient, dataset: str) -> None:
        self._client = client
        self._dataset = dataset

    async def search_playbook(self, query: Query, dataset: Dataset = "", top_k: TopK = 5) -> answers.SearchAnswer:
        """Return lessons of earlier trajectories that match what you are about to do, best first."""
        with _report_errors():
            name = await self._dataset_name(dataset)
            return answers.search_answer(name, await self._client.search(name, query, top_k=top_k))

    async def read_playbook(
        self, dataset: Dataset = "", section: Section = "", limit: Limit = 100
    ) -> answers.PlaybookAnswer:
        """Return the lessons of a playbook in its order, section by section."""
        with _report_errors():
            name = await self._dataset_name(dataset)
            playbook = (await self._client.playbooks.get(dataset=name)).playbook
            bullets = [bullet for bullet in playbook.bullets if not section or bullet.section == section]
            return answers.playbook_answer(name, playbook.revision, bullets, limit)

    async def learn_from_trajectory(
        self,
        messages: Messages,
        succeeded: Succeeded,
        test_report: TestReport = "",
        used_bullet_ids: UsedIds = [],  # noqa: B006  (the schema shows the default; nothing changes it)
        cited_bullet_ids: CitedIds = [],  # noqa: B006
        dataset: Dataset = "",
    ) -> answers.LearnAnswer:
        """Learn lessons from a trajectory and store them in the playbook. The same trajectory is learned once."""
        document = {
            "messages": messages,
            "status": "success" if succeeded else "failure",
            "test_report": test_report,
            "used_bullet_ids": used_bullet_ids,
            "cited_bullet_ids": cited_bullet_ids,
        }
        with _report_errors():
            name = await self._dataset_name(dataset, or_new=True)
            content = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
            (parsed,) = (await self._client.reflector.parse_trajectories(content=content, dataset=name)).trajectories
            record = TrajectoryRecord("mcp", parsed.trajectory, parsed.ground_truth, parsed.test_report)
            response = await self._client.learn(
                record.trajectory, test_report=record.test_report, request_id=record.request_id
            )
            return answers.learn_answer(response)

    async def vote(
        self,
        bullet_id: BulletId,
        verdict: Verdict,
        trajectory_id: TrajectoryId,
        reason: Reason = "",
        dataset: Dataset = "",
    ) -> answers.VoteAnswer:
        """Report that a lesson helped or harmed a trajectory."""
        tags = {"helpful": VOTE_TAG_HELPFUL, "harmful": VOTE_TAG_HARMFUL, "neutral": VOTE_TAG_NEUTRAL}
        vote = Vote(bullet_id=bullet_id, tag=tags[verdict], trajectory_id=trajectory_id, reason=reason)
        with _report_errors():
            name = await self._dataset_name(dataset)
            response = await self._client.playbooks.apply_deltas(
                dataset=name, votes=[vote], author="mcp", reason=reason
            )
            (outcome,) = response.votes
            return answers.VoteAnswer(
                counted=outcome.applied, reason=outcome.skipped_reason, revision=response.revision
            )

    async def playbook_text(self, dataset: str) -> str:
        """Return a playbook as text: one lesson a line, after its id."""
        with _report_errors():
            return bullet_lines((await self._client.playbooks.get(dataset=dataset)).playbook.bullets)

    async def _dataset_name(self, dataset: str, or_new: bool = False) -> str:
        """Return `dataset`, else the default of the server, else the only dataset."""
        if dataset or self._dataset:
            return dataset or self._dataset
        names = [summary.name for summary in (await self._client.playbooks.list_datasets()).datasets]
        if len(names) == 1:
            return names[0]
        if not names and or_new:
            return "default"
        if not names:
            raise ToolError("there is no playbook yet: learn_from_trajectory creates one")
        raise ToolError(f"several playbooks exist; set `dataset` to one of: {', '.join(names)}")


@contextmanager
def _report_errors() -> Iterator[None]:
    """Raise errors of hansei as tool errors, with the message and the wrong fields for the model."""
    try:
        yield
    except HanseiError as error:
        lines = [f"{error.message} [{error.reason}]"]
        lines += [f"{violation.field}: {violation.description}" for violation in error.violations]
        raise ToolError("\n".join(lines)) from error
