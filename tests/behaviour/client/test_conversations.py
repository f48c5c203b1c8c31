"""Test `client.learn(messages=…)` of both clients: the forms of messages that OpenAI's client sends and returns."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessage

from hansei.client import AsyncClient, Client, errors
from hansei.playbook.v1.playbook_pb2 import VOTE_TAG_HELPFUL
from hansei.reflector.v1.trajectory_pb2 import Trajectory
from tests.support import systems
from tests.support.commands import dataset

__all__ = ["dataset"]  # a fixture

CALL = {"id": "1", "type": "function", "function": {"name": "git", "arguments": '{"command": "git commit"}'}}
MESSAGES: list[Any] = [
    {"role": "system", "content": "You are careful."},
    {"role": "user", "content": [{"type": "text", "text": "Commit the "}, {"type": "text", "text": "log."}]},
    ChatCompletionMessage.model_validate({"role": "assistant", "content": None, "tool_calls": [CALL]}),
    {"role": "tool", "tool_call_id": "1", "content": "exit code 128\nfatal: unable to auto-detect email address"},
    {"role": "assistant", "content": "I could not commit."},
]


def test_a_conversation_is_learned_once(system: systems.System, dataset: str) -> None:
    with Client(system.address) as client:
        conversation: dict[str, Any] = {
            "messages": MESSAGES,
            "succeeded": False,
            "dataset": dataset,
            "test_report": "failed: no commit",
        }
        learned = client.learn(**conversation)
        assert any("auto-detect email" in insight.key_insight for insight in learned.reflection.insights)
        again = client.learn(**conversation)
        assert (again.curation, again.already_learned) == (learned.curation, True)
        added = learned.curation.operations[0].bullet_id
        found = client.search(dataset, "unable to auto-detect email", min_revision=learned.curation.revision)
        assert added in [result.bullet.id for result in found.results]
        served: dict[str, Any] = {"used_bullet_ids": [added], "cited_bullet_ids": [added]}
        answer = {"role": "assistant", "content": f"I set an email first [{added}]. Committed."}
        voted = client.learn(
            messages=[*MESSAGES[:2], answer], succeeded=True, dataset=dataset, test_report="passed", **served
        )
        assert [(vote.vote.bullet_id, vote.vote.tag) for vote in voted.curation.votes] == [(added, VOTE_TAG_HELPFUL)]


async def test_the_async_client_learns_a_conversation(system: systems.System, dataset: str) -> None:
    async with AsyncClient(system.address) as client:
        learned = await client.learn(
            messages=[{"role": "user", "content": "6 times 7?"}, {"role": "assistant", "content": "41"}],
            succeeded=False,
            dataset=dataset,
            ground_truth="42",
        )
        assert learned.curation.revision == 1
        with pytest.raises(errors.InvalidArgument):
            await client.learn(messages=[{"text": "no role"}], succeeded=True, dataset=dataset)


WRONG_ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
    ((), {}, TypeError, "learn needs a trajectory, or messages"),
    (("abc",), {}, TypeError, "trajectory is a str; it must be a Trajectory"),
    ((), {"messages": [], "succeeded": True}, ValueError, "messages is empty"),
    ((), {"messages": MESSAGES}, TypeError, "messages need succeeded=True or False"),
    ((), {"messages": MESSAGES, "succeeded": "no"}, TypeError, r"^succeeded must be True or False \(got 'no'\)$"),
    ((), {"messages": MESSAGES, "succeeded": 0}, TypeError, "succeeded must be True or False"),
    ((Trajectory(),), {"messages": MESSAGES, "succeeded": True}, ValueError, "messages, succeeded cannot be set"),
    ((Trajectory(),), {"dataset": "other"}, ValueError, "dataset cannot be set beside a trajectory"),
]


@pytest.mark.parametrize(("arguments", "options", "error", "message"), WRONG_ARGUMENTS)
async def test_contradicting_and_missing_arguments_are_named(
    arguments: tuple[Any, ...], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with Client("127.0.0.1:1") as client, pytest.raises(error, match=message):
        client.learn(*arguments, **options)
    async with AsyncClient("127.0.0.1:1") as async_client:
        with pytest.raises(error, match=message):
            await async_client.learn(*arguments, **options)
