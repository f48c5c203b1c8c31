"""The MCP server: tools and a resource that use a client of hansei."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib.metadata import version
from typing import Any

from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.request_state import RequestStateSecurity
from mcp_types import Tool, ToolAnnotations
from pydantic import ValidationError

from chassis.errors import shorten
from chassis.field_errors import describe_error
from chassis.targets.session import encode_arguments
from hansei.client.client import NEW_DATASET, AsyncClient
from hansei.client.edits import DEFAULT_SECTION
from hansei.client.pages import join_pages_async
from hansei.client.recording import format_bullets
from hansei.evidence.v1.guard_service_pb2 import GuardedCall
from hansei.mcp_server import answers
from hansei.mcp_server.arguments import (
    BulletId,
    CallFailed,
    CallResult,
    CitedIds,
    Dataset,
    GuardedArguments,
    GuardedTool,
    LessonText,
    Limit,
    Messages,
    NewSection,
    Query,
    Reason,
    Section,
    ServingId,
    SessionId,
    Succeeded,
    TestReport,
    TopK,
    TrajectoryId,
    UsedIds,
    Verdict,
)
from hansei.mcp_server.errors import report_errors
from hansei.mcp_server.plans import PlanTools
from hansei.mcp_server.tokens import GatewayTokens
from hansei.playbook.v1.playbook_pb2 import VOTE_TAG_HARMFUL, VOTE_TAG_HELPFUL, VOTE_TAG_NEUTRAL, Vote

STATE_KEY_VARIABLE = "HANSEI_MCP_STATE_KEY"
"""Key of the state in questions, at least 32 bytes, which servers behind one address share. Unset: a random one."""
QUESTION_SECONDS = 7 * 86_400.0
"""Time for which the answer to the question of a plan is accepted."""

INSTRUCTIONS = (
    "A memory of lessons from earlier trajectories of agents. Before a task, call search_playbook with what you are "
    "about to do, and cite a lesson as [id] where you act on it. After the task, call learn_from_trajectory with the "
    "conversation and its outcome. If you know that a lesson helped or harmed, call vote. If a person tells you to "
    "remember, correct or forget something, call remember, edit or forget. For trials, call recall in place of "
    "search_playbook, and report_outcome after the task if recall returned a serving_id. Before a call that "
    "changes something, call check_call, and report_call after it. For a question that needs several "
    "searches, call run_plan."
)


def create_server(
    client: AsyncClient, dataset: str = "", tokens: GatewayTokens | None = None, auth: AuthSettings | None = None
) -> MCPServer[Any]:
    """Return the server for a client; `dataset` is the playbook of tool calls that name none.

    With `tokens` and `auth`, callers over HTTP need a bearer token, and act with its rights in place of the client's.
    """
    server = _PlaybookServer(
        "hansei",
        instructions=INSTRUCTIONS,
        version=version("hansei"),
        log_level="WARNING",
        subscriptions=False,
        token_verifier=tokens,
        auth=auth,
        request_state_security=_build_state_security(),
    )
    choose_client = tokens.choose_client if tokens is not None else lambda: client
    tools, plans = _PlaybookTools(choose_client, dataset), PlanTools(choose_client)
    read_only = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    # The content of a trajectory, and the trajectory of a vote, are the idempotency keys.
    idempotent = ToolAnnotations(
        read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    server.tool(annotations=read_only)(tools.search_playbook)
    server.tool(annotations=read_only)(tools.read_playbook)
    server.tool(annotations=idempotent)(tools.learn_from_trajectory)
    server.tool(annotations=idempotent)(tools.vote)
    server.tool(annotations=idempotent)(tools.recall)
    server.tool(annotations=idempotent)(tools.report_outcome)
    server.tool(annotations=idempotent)(tools.check_call)
    server.tool(annotations=idempotent)(tools.report_call)
    server.tool(annotations=idempotent)(tools.remember)
    destructive = ToolAnnotations(
        read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
    )
    server.tool(annotations=destructive)(tools.edit)
    server.tool(annotations=destructive)(tools.forget)
    # A plan may call the tools of tool servers.
    executing = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False)
    server.tool(annotations=executing)(plans.run_plan)
    server.tool(annotations=executing)(plans.answer_question)
    server.resource("playbook://{dataset}", name="playbook", mime_type="text/plain")(tools.playbook_text)
    return server


def _build_state_security() -> RequestStateSecurity:
    """Return the protection of the state that clients send back with an answer."""
    key = os.environ.get(STATE_KEY_VARIABLE) or secrets.token_hex(32)
    return RequestStateSecurity(keys=[key], ttl=QUESTION_SECONDS)


class _PlaybookServer(MCPServer[Any]):
    """A server that refuses unknown arguments, and describes wrong ones in the words of hansei."""

    async def list_tools(self) -> list[Tool]:
        """Return the tools; their schemas allow no other arguments."""
        return [
            tool.model_copy(update={"input_schema": {**tool.input_schema, "additionalProperties": False}})
            for tool in await super().list_tools()
        ]

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool. Raises ToolError with a line for each wrong argument."""
        await self._refuse_unknown_arguments(name, arguments)
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            lines = [describe_error(item, "arguments") for item in error.__cause__.errors(include_url=False)]
            raise ToolError("\n".join(lines)) from error

    async def _refuse_unknown_arguments(self, name: str, arguments: dict[str, Any]) -> None:
        """Raise ToolError with a line for each argument that a tool does not have.

        A model that misspells `dataset` would otherwise read and write the default playbook.
        """
        tool = next((tool for tool in await self.list_tools() if tool.name == name), None)
        if tool is None:
            return
        names = list(tool.input_schema["properties"])
        if unknown := [argument for argument in arguments if argument not in names]:
            raise ToolError("\n".join(_describe_unknown_argument(argument, name, names) for argument in unknown))


def _describe_unknown_argument(argument: str, tool: str, names: Sequence[str]) -> str:
    near = get_close_matches(argument, names, n=1)
    remedy = f"the nearest one is {near[0]}" if near else f"the arguments are {', '.join(names)}"
    return f"{shorten(argument)}: is not an argument of {tool}; {remedy}"


class _PlaybookTools:
    """The tools; models read their docstrings."""

    def __init__(self, choose_client: Callable[[], AsyncClient], dataset: str) -> None:
        self._choose_client = choose_client
        self._dataset = dataset

    @property
    def _client(self) -> AsyncClient:
        return self._choose_client()

    async def search_playbook(self, query: Query, dataset: Dataset = "", top_k: TopK = 5) -> answers.SearchAnswer:
        """Return lessons of earlier trajectories that match your next action, best first."""
        with report_errors():
            name = await self._choose_dataset_name(dataset)
            return answers.build_search_answer(name, await self._client.search(name, query, top_k=top_k))

    async def read_playbook(
        self, dataset: Dataset = "", section: Section = "", limit: Limit = 100
    ) -> answers.PlaybookAnswer:
        """Return the lessons of a playbook in its order, section by section."""
        with report_errors():
            name = await self._choose_dataset_name(dataset)
            playbook = (await join_pages_async(self._client.playbooks.get, dataset=name)).playbook
            bullets = [bullet for bullet in playbook.bullets if not section or bullet.section == section]
            return answers.build_playbook_answer(name, playbook.revision, bullets, limit)

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
        with report_errors():
            response = await self._client.learn(
                messages=messages,
                succeeded=succeeded,
                test_report=test_report,
                used_bullet_ids=used_bullet_ids,
                cited_bullet_ids=cited_bullet_ids,
                dataset=await self._choose_dataset_name(dataset, or_new=True),
            )
            return answers.build_learn_answer(response)

    async def vote(
        self,
        bullet_id: BulletId,
        verdict: Verdict,
        trajectory_id: TrajectoryId,
        reason: Reason = "",
        dataset: Dataset = "",
    ) -> answers.VoteAnswer:
        """Vote on a lesson: it helped a trajectory, or harmed it."""
        tags = {"helpful": VOTE_TAG_HELPFUL, "harmful": VOTE_TAG_HARMFUL, "neutral": VOTE_TAG_NEUTRAL}
        vote = Vote(bullet_id=bullet_id, tag=tags[verdict], trajectory_id=trajectory_id, reason=reason)
        with report_errors():
            name = await self._choose_dataset_name(dataset)
            response = await self._client.playbooks.apply_deltas(dataset=name, votes=[vote], reason=reason)
            (outcome,) = response.votes
            return answers.VoteAnswer(
                counted=outcome.applied, reason=outcome.skipped_reason, revision=response.revision
            )

    async def recall(
        self, session_id: SessionId, query: Query, dataset: Dataset = "", top_k: TopK = 5
    ) -> answers.RecallAnswer:
        """Return lessons that match your next action; trials may withhold some of them at random."""
        with report_errors():
            name = await self._choose_dataset_name(dataset)
            return answers.build_recall_answer(name, await self._client.recall(name, session_id, query, top_k=top_k))

    async def report_outcome(
        self, serving_id: ServingId, succeeded: Succeeded, dataset: Dataset = ""
    ) -> answers.OutcomeAnswer:
        """Report the outcome of a task. Only the first report counts.

        `serving_id` is from the result of recall. If it is empty there, nothing is measured: do not call this tool.
        """
        with report_errors():
            name = await self._choose_dataset_name(dataset)
            response = await self._client.evidence.report_outcome(
                dataset=name, serving_id=serving_id, succeeded=succeeded
            )
            return answers.OutcomeAnswer(counted=response.counted)

    async def check_call(
        self, session_id: SessionId, tool: GuardedTool, arguments: GuardedArguments = None, dataset: Dataset = ""
    ) -> answers.CheckAnswer:
        """Check a tool call before you make it: a lesson may advise against it, or a person must decide."""
        with report_errors():
            name = await self._choose_dataset_name(dataset)
            call = GuardedCall(tool=tool, arguments=encode_arguments(arguments or {}))
            return answers.build_check_answer(
                await self._client.guards.check_call(dataset=name, session_id=session_id, call=call)
            )

    async def report_call(
        self,
        session_id: SessionId,
        tool: GuardedTool,
        arguments: GuardedArguments = None,
        result: CallResult = "",
        failed: CallFailed = False,
        dataset: Dataset = "",
    ) -> answers.ReportedCallAnswer:
        """Report a tool call that you made, for the checks of later calls of the session."""
        with report_errors():
            name = await self._choose_dataset_name(dataset)
            call = GuardedCall(tool=tool, arguments=encode_arguments(arguments or {}))
            response = await self._client.guards.report_call(
                dataset=name, session_id=session_id, call=call, result=result, failed=failed
            )
            return answers.ReportedCallAnswer(events=response.events)

    async def remember(
        self, text: LessonText, section: NewSection = DEFAULT_SECTION, reason: Reason = "", dataset: Dataset = ""
    ) -> answers.EditAnswer:
        """Add a lesson to the playbook. A lesson that is already there is not added again; the answer has its id."""
        with report_errors():
            name = await self._choose_dataset_name(dataset, or_new=True)
            return answers.build_edit_answer(
                name, await self._client.remember(name, text, section=section, reason=reason)
            )

    async def edit(
        self, bullet_id: BulletId, text: LessonText, reason: Reason = "", dataset: Dataset = ""
    ) -> answers.EditAnswer:
        """Replace the text of a lesson."""
        with report_errors():
            name = await self._choose_dataset_name(dataset)
            return answers.build_edit_answer(name, await self._client.edit(name, bullet_id, text, reason=reason))

    async def forget(self, bullet_id: BulletId, reason: Reason = "", dataset: Dataset = "") -> answers.EditAnswer:
        """Remove a lesson from the playbook."""
        with report_errors():
            name = await self._choose_dataset_name(dataset)
            return answers.build_edit_answer(name, await self._client.forget(name, bullet_id, reason=reason))

    async def playbook_text(self, dataset: str) -> str:
        """Return a playbook as text: one lesson a line, after its id."""
        with report_errors():
            response = await join_pages_async(self._client.playbooks.get, dataset=dataset)
            return format_bullets(response.playbook.bullets)

    async def _choose_dataset_name(self, dataset: str, or_new: bool = False) -> str:
        """Return `dataset`, else the default of the server, else the only dataset."""
        if dataset or self._dataset:
            return dataset or self._dataset
        names = [summary.name for summary in (await self._client.playbooks.list_datasets()).datasets]
        if len(names) == 1:
            return names[0]
        if not names and or_new:
            return NEW_DATASET
        if not names:
            raise ToolError("there is no playbook yet: learn_from_trajectory creates one")
        raise ToolError(f"several playbooks exist; set `dataset` to one of: {', '.join(names)}")
