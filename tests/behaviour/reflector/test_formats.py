"""`hansei learn FILE` learns trajectory files of other frameworks unchanged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from langchain_core.load import dumps
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage, messages_to_dict
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from services.reflector.adapters.importers.files import FORMATS
from tests.fakes.openai_answers import chat
from tests.fakes.openai_server import OpenAIServer
from tests.support.commands import Hansei, bullets, dataset, hansei

__all__ = ["dataset", "hansei"]  # fixtures

FILES = Path(__file__).parents[3] / "services/reflector/tests/files"


@tool
def git(command: str) -> str:
    """Run git."""
    if "user.email" in command:
        return "exit code 0"
    return "exit code 128\nfatal: unable to auto-detect email address"


def conversation(server: OpenAIServer, request: str = "Commit the log.") -> list[BaseMessage]:
    """Return the conversation of a LangChain agent with a scripted model, over HTTP."""
    server.script(
        chat(tool_calls=[("git", {"command": "git commit -m Log"})]),
        chat(tool_calls=[("git", {"command": "git config user.email me@example.org"})]),
        chat("I could not commit."),
    )
    model = ChatOpenAI(model="scripted", base_url=server.base_url, api_key="none", max_retries=0).bind_tools([git])
    messages: list[BaseMessage] = [HumanMessage(request)]
    for _ in range(3):
        reply = model.invoke(messages)
        messages.append(reply)
        messages += [
            ToolMessage(git.invoke(call["args"]), tool_call_id=call["id"], name=call["name"])
            for call in reply.tool_calls
        ]
    return messages


@pytest.fixture(scope="module")
def conversations() -> list[list[BaseMessage]]:
    with OpenAIServer() as server:
        return [conversation(server, request) for request in ("Commit the log.", "Commit the notes.")]


def encode(form: str, messages: list[BaseMessage]) -> str:
    if form == "state":
        return json.dumps({"messages": [message.model_dump() for message in messages], "status": "failure"})
    return dumps(messages) if form == "dumps" else json.dumps(messages_to_dict(messages))


@pytest.mark.parametrize("form", ["dumps", "messages_to_dict", "state"])
def test_langchain_messages_are_learned(
    hansei: Hansei, dataset: str, conversations: list[list[BaseMessage]], form: str, tmp_path: Path
) -> None:
    file, second = tmp_path / "conversation.json", tmp_path / "second.json"
    file.write_text(encode(form, conversations[0]), encoding="utf-8")
    learned = hansei("learn", file, "--dataset", dataset, "--json")
    assert learned.code == 0, learned.err
    (insight, *_) = learned.lines[0]["response"]["reflection"]["insights"]
    assert "unable to auto-detect email address" in insight["error_identification"]
    # Nothing but the agent's own word says how it ended, so the quoted message waits for a second conversation.
    assert not any("auto-detect email" in bullet["content"] for bullet in bullets(hansei, dataset))
    second.write_text(encode(form, conversations[1]), encoding="utf-8")
    assert hansei("learn", second, "--dataset", dataset, "--json").code == 0
    assert any("auto-detect email" in bullet["content"] for bullet in bullets(hansei, dataset))
    # The id is derived from the content, so the same trajectory is learned once.
    (first,) = learned.lines
    (again,) = hansei("learn", file, "--dataset", dataset, "--json").lines
    assert again == first | {"response": first["response"] | {"already_learned": True}}


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("swe_agent.traj", "attempted relative import"),
        ("atif.json", "pens must be an integer"),
        ("anthropic.json", "no city of that name"),
    ],
)
def test_a_folder_of_files_of_several_formats_is_learned(
    hansei: Hansei, dataset: str, name: str, error: str, tmp_path: Path
) -> None:
    names = {"swe_agent.traj", "atif.json", "anthropic.json"}
    for file in names:
        shutil.copy(FILES / file, tmp_path / file)
    learned = hansei("learn", tmp_path, "--dataset", dataset, "--json")
    assert learned.code == 0, learned.err
    by_source = {Path(line["source"]).name: line["response"]["reflection"] for line in learned.lines}
    assert set(by_source) == names
    assert any(error in insight["error_identification"] for insight in by_source[name]["insights"])


def test_a_conversation_in_two_formats_is_learned_once(hansei: Hansei, dataset: str, tmp_path: Path) -> None:
    command, error = {"command": "git commit"}, "exit code 128: no email address"
    request, answer = {"role": "user", "content": "Commit."}, {"role": "assistant", "content": "I could not commit."}
    call = {"id": "c1", "type": "function", "function": {"name": "git", "arguments": json.dumps(command)}}
    openai = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "git", "tool_call_id": "c1", "content": error},
    ]
    anthropic = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "git", "input": command}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": error}]},
    ]
    for calls, is_known in ((openai, False), (anthropic, True)):
        file = tmp_path / "conversation.json"
        file.write_text(json.dumps({"messages": [request, *calls, answer], "status": "failure"}), encoding="utf-8")
        learned = hansei("learn", file, "--dataset", dataset, "--json")
        assert learned.code == 0, learned.err
        assert learned.lines[0]["response"].get("already_learned", False) is is_known


def test_the_error_of_an_unknown_format_lists_all_formats(hansei: Hansei, dataset: str, tmp_path: Path) -> None:
    file = tmp_path / "log.json"
    file.write_text('{"events": [], "traj": "lost"}', encoding="utf-8")
    refused = hansei("learn", file, "--dataset", dataset, "--verbose")
    assert refused.code == 2
    assert "its fields are events, traj [UNKNOWN_TRAJECTORY_FORMAT]" in refused.err
    assert "as tau_bench: trajectory.traj: 'lost' must be a list" in refused.err
    assert refused.err.count("  as ") == len(FORMATS)


def test_the_blamed_step_has_its_position_in_the_file(hansei: Hansei, dataset: str, tmp_path: Path) -> None:
    recorded: Any = json.loads((FILES / "atif.json").read_text(encoding="utf-8"))
    recorded["extra"] = {"reward": 0.0}
    file = tmp_path / "failed.json"
    file.write_text(json.dumps(recorded), encoding="utf-8")
    output = hansei("learn", file, "--dataset", dataset, "--verbose")
    assert output.code == 0, output.err
    assert "blamed" in output.out
    assert "steps[2]" in output.out
