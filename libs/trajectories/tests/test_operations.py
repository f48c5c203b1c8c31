from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.trajectories.operations import name_operation


@pytest.mark.parametrize(
    ("tool", "arguments", "operation"),
    [
        ("book_flight", {"from": "A"}, "book_flight"),
        ("git", {"command": "git commit -m 'x'"}, "git commit"),
        ("shell", {"command": "cd repo && git push --force"}, "git push"),
        ("bash", {"cmd": "TOKEN=1 sudo apt-get install x"}, "apt-get install"),
        ("run", {"command": "pytest -q"}, "run"),
        ("python", {"command": "python load.py"}, "python"),
        ("http", {"method": "post", "path": "/orders"}, "http POST"),
        ("sqlite", {"sql": " insert into t values (1)"}, "sqlite INSERT"),
        ("db", {"query": "SELECT 1"}, "db SELECT"),
        ("search", {"query": "weather in May"}, "search"),
        ("exec", {"argv": ["docker", "build", "."]}, "exec"),
        ("shell", {"argv": ["docker", "build", "."]}, "docker build"),
    ],
)
def test_an_operation_is_named_by_what_the_tool_is_asked_to_do(tool: str, arguments: object, operation: str) -> None:
    assert name_operation(tool, json.dumps(arguments)) == operation


def test_a_shells_plain_text_is_a_command() -> None:
    assert name_operation("shell", "# first\nls -la") == "ls"
    assert name_operation("python", "import os") == "python"


@given(st.text(max_size=10), st.text(max_size=60) | st.dictionaries(st.text(max_size=8), st.integers()).map(json.dumps))
def test_any_arguments_give_a_name_that_is_short(tool: str, arguments: str) -> None:
    assert len(name_operation(tool, arguments)) <= len(tool) + 80
