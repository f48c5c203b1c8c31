"""The types of the arguments of the MCP tools; models read their descriptions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

Query = Annotated[str, Field(min_length=1, max_length=100_000, description="Your next action, or a problem.")]
Dataset = Annotated[
    str, Field(max_length=128, description="The name of the playbook; empty for the default of this server.")
]
TopK = Annotated[int, Field(ge=1, le=100, description="The most lessons to return.")]
Section = Annotated[str, Field(max_length=256, description="Return only lessons of this section; empty for all.")]
Limit = Annotated[int, Field(ge=1, le=1_000, description="The most lessons to return.")]
BulletId = Annotated[str, Field(min_length=1, max_length=128, description="The id of the lesson.")]
LessonText = Annotated[str, Field(min_length=1, max_length=20_000, description="The lesson, in a sentence or two.")]
NewSection = Annotated[str, Field(max_length=256, description="The section of the lesson.")]
Verdict = Annotated[Literal["helpful", "harmful", "neutral"], Field(description="The effect of the lesson.")]
TrajectoryId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=256,
        description="The trajectory that shows the effect. Only one vote per lesson and trajectory counts.",
    ),
]
Reason = Annotated[str, Field(max_length=20_000, description="The reason, in a sentence.")]
GuardedTool = Annotated[str, Field(min_length=1, max_length=256, description="The name of the tool.")]
CallResult = Annotated[str, Field(max_length=400_000, description="The result of the call.")]
CallFailed = Annotated[bool, Field(description="True if the call failed.")]
GuardedArguments = Annotated[dict[str, Any] | None, Field(description="The arguments of the call.")]
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
UsedIds = Annotated[
    list[str], Field(max_length=1_000, description="The ids of the lessons that search_playbook returned.")
]
SessionId = Annotated[
    str, Field(min_length=1, max_length=256, description="A name for your task, which ends in one outcome.")
]
ServingId = Annotated[
    str, Field(min_length=1, max_length=64, description="The id from recall, unless it is empty there.")
]
CitedIds = Annotated[list[str], Field(max_length=1_000, description="The ids of the lessons that you acted on.")]
