"""A module that needs an extra says which one, where the package is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import importlib, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if f"{name}.".startswith(f"{sys.argv[2]}."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
try:
    importlib.import_module(sys.argv[1])
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("hansei.client.langchain", "langchain_core", "langchain"),
        ("hansei.client.langchain_guard", "langchain_core", "langchain"),
        ("hansei.client.openai", "openai", "openai"),
        ("hansei.client.adapters.langgraph", "langchain", "langgraph"),
        ("hansei.client.adapters.openai_agents", "agents", "openai-agents"),
        ("hansei.client.adapters.pydantic_ai", "pydantic_ai", "pydantic-ai"),
        ("hansei.client.adapters.smolagents", "smolagents", "smolagents"),
        ("hansei.client.adapters.agent_framework", "agent_framework", "agent-framework"),
        ("hansei.client.adapters.claude_agent_sdk", "claude_agent_sdk", "claude-agent-sdk"),
        ("hansei.client.adapters.crewai", "crewai", "crewai"),
        ("hansei.client.adapters.google_adk", "google.adk", "google-adk"),
        ("hansei.a2a_server", "a2a", "a2a"),
        ("hansei.a2a_server", "sse_starlette", "a2a"),
    ],
)
def test_a_missing_package_is_named_with_the_line_that_installs_it(module: str, package: str, extra: str) -> None:
    assert _import_without(package, module) == f"{package} is not installed: pip install 'hansei[{extra}]'\n"


def test_another_missing_module_is_an_error_of_its_own() -> None:
    assert _import_without("pydantic", "hansei.client.langchain") == "No module named 'pydantic'\n"


def _import_without(package: str, module: str) -> str:
    """Return the output of an import of `module` without `package`."""
    command = [sys.executable, "-c", PROGRAM, module, package]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
