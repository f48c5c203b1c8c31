"""The MCP server: four tools and a resource over a client of hansei."""

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
from hansei.client.runs import Run
from hansei.mcp_server import answers
from hansei.playbook.v1.playbook_pb2 import VOTE_TAG_HARMFUL, VOTE_TAG_HELPFUL, VOTE_TAG_NEUTRAL, Vote

INSTRUCTIONS = (
    "A memory of lessons that agents drew from their runs. Before a task, call search_playbook with what you are about "
    "to do, and cite a lesson as [id] where you act on it. After the task, call learn_from_run with the conversation "
    "and how it ended. When you know that a lesson helped or harmed, call vote."
)
MAX_MESSAGES = 10_000
MAX_TOP_K = 100
MAX_PAGE = 1_000

Query = Annotated[str, Field(min_length=1, max_length=100_000, description="What you are about to do, or a problem.")]
Dataset = Annotated[
    str, Field(max_length=128, description="Name of the playbook; empty for the one this server was started with.")
]
TopK = Annotated[int, Field(ge=1, le=MAX_TOP_K, description="How many lessons at most.")]
Section = Annotated[str, Field(max_length=256, description="Only lessons of this section; empty for all.")]
Limit = Annotated[int, Field(ge=1, le=MAX_PAGE, description="How many lessons at most.")]
BulletId = Annotated[str, Field(min_length=1, max_length=128, description="The lesson.")]
Verdict = Annotated[Literal["helpful", "harmful", "neutral"], Field(description="What it did.")]
RunId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=256,
        description="Names the run that shows it: of one run, one vote on a lesson counts, however often it is sent.",
    ),
]
Why = Annotated[str, Field(max_length=20_000, description="Why, in a sentence.")]
Messages = Annotated[
    list[dict[str, Any]],
    Field(
        min_length=1,
        max_length=MAX_MESSAGES,
        description="The conversation in order, with tool calls and their results, as OpenAI, Anthropic or LangChain "
        'write it: [{"role": "user", "content": "…"}, {"role": "assistant", "tool_calls": […]}, {"role": "tool", …}].',
    ),
]
Succeeded = Annotated[bool, Field(description="Whether the run did what was asked.")]
Report = Annotated[
    str,
    Field(
        max_length=1_000_000,
        description="What a test or the environment said of it, word for word. Without one only your word stands, and "
        "votes on the lessons you cited do not count.",
    ),
]
Used = Annotated[list[str], Field(max_length=1_000, description="Ids of the lessons that search_playbook gave you.")]
Cited = Annotated[list[str], Field(max_length=1_000, description="Ids of the lessons that you acted on.")]


def server(client: AsyncClient, dataset: str = "") -> MCPServer[Any]:
    """The server over a client; `dataset` is the playbook of calls that name none."""
    made: MCPServer[Any] = MCPServer(
        "hansei", instructions=INSTRUCTIONS, version=version("hansei"), log_level="WARNING", subscriptions=False
    )
    memory = _Memory(client, dataset)
    reading = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    # Both may be repeated: a run is named by its content, a vote by its run.
    changing = ToolAnnotations(
        read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    made.tool(annotations=reading)(memory.search_playbook)
    made.tool(annotations=reading)(memory.read_playbook)
    made.tool(annotations=changing)(memory.learn_from_run)
    made.tool(annotations=changing)(memory.vote)
    made.resource("playbook://{dataset}", name="playbook", mime_type="text/plain")(memory.playbook_text)
    return made


class _Memory:
    """The tools; their docstrings are what a model reads of them."""

    def __init__(self, client: AsyncClient, dataset: str) -> None:
        self._client = client
        self._dataset = dataset

    async def search_playbook(self, query: Query, dataset: Dataset = "", top_k: TopK = 5) -> answers.Found:
        """Lessons of earlier runs that fit what you are about to do, best first."""
        with _told():
            name = await self._named(dataset)
            return answers.found(name, await self._client.search(name, query, top_k=top_k))

    async def read_playbook(
        self, dataset: Dataset = "", section: Section = "", limit: Limit = 100
    ) -> answers.PlaybookPage:
        """Lessons of a playbook in its order, section by section."""
        with _told():
            name = await self._named(dataset)
            book = (await self._client.playbooks.get(dataset=name)).playbook
            bullets = [each for each in book.bullets if not section or each.section == section]
            return answers.page(name, book.revision, bullets, limit)

    async def learn_from_run(
        self,
        messages: Messages,
        succeeded: Succeeded,
        test_report: Report = "",
        used_bullet_ids: Used = [],  # noqa: B006  (a default that the schema shows; never changed)
        cited_bullet_ids: Cited = [],  # noqa: B006
        dataset: Dataset = "",
    ) -> answers.Learned:
        """Draw lessons from a run and keep them in the playbook. The same run is learned once."""
        record = {
            "messages": messages,
            "status": "success" if succeeded else "failure",
            "test_report": test_report,
            "used_bullet_ids": used_bullet_ids,
            "cited_bullet_ids": cited_bullet_ids,
        }
        with _told():
            name = await self._named(dataset, may_be_new=True)
            content = json.dumps(record, ensure_ascii=False).encode("utf-8", "replace")
            (parsed,) = (await self._client.reflector.parse_trajectories(content=content, dataset=name)).trajectories
            run = Run("mcp", parsed.trajectory, parsed.ground_truth, parsed.test_report)
            response = await self._client.learn(run.trajectory, test_report=run.test_report, request_id=run.request_id)
            return answers.learned(response)

    async def vote(
        self, bullet_id: BulletId, verdict: Verdict, run_id: RunId, reason: Why = "", dataset: Dataset = ""
    ) -> answers.Counted:
        """Say that a lesson helped or harmed a run."""
        tags = {"helpful": VOTE_TAG_HELPFUL, "harmful": VOTE_TAG_HARMFUL, "neutral": VOTE_TAG_NEUTRAL}
        cast = Vote(bullet_id=bullet_id, tag=tags[verdict], trajectory_id=run_id, reason=reason)
        with _told():
            name = await self._named(dataset)
            done = await self._client.playbooks.apply_deltas(dataset=name, votes=[cast], author="mcp", reason=reason)
            (outcome,) = done.votes
            return answers.Counted(counted=outcome.applied, reason=outcome.skipped_reason, revision=done.revision)

    async def playbook_text(self, dataset: str) -> str:
        """A playbook as text: one lesson a line, after its id."""
        with _told():
            book = (await self._client.playbooks.get(dataset=dataset)).playbook
            return "\n".join(f"[{each.id}] {' '.join(each.content.split())}" for each in book.bullets)

    async def _named(self, dataset: str, may_be_new: bool = False) -> str:
        """The playbook that is meant: the one named, the server's own, else the only one there is."""
        if dataset or self._dataset:
            return dataset or self._dataset
        names = [each.name for each in (await self._client.playbooks.list_datasets()).datasets]
        if len(names) == 1:
            return names[0]
        if not names and may_be_new:
            return "default"
        there = ", ".join(names) or "none yet: learn_from_run makes one"
        raise ToolError(f"which playbook? Name one with `dataset`; there are {there}")


@contextmanager
def _told() -> Iterator[None]:
    """Hansei's errors as a model is to read them: what is wrong, and where."""
    try:
        yield
    except HanseiError as error:
        lines = [f"{error.message} [{error.reason}]"]
        lines += [f"{each.field}: {each.description}" for each in error.violations]
        raise ToolError("\n".join(lines)) from error
