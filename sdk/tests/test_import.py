"""Test that a client imports no code of servers, and no library of its adapters."""

from __future__ import annotations

import subprocess
import sys

NOT_NEEDED = {
    "langchain_core",
    "mcp",
    "numpy",
    "openai",
    "opentelemetry.sdk",
    "protovalidate",
    "pydantic",
    "rich",
    "sqlalchemy",
    "yaml",
}


def test_importing_the_client_loads_no_unused_packages() -> None:
    code = "import sys, hansei.client.client; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert NOT_NEEDED & set(ran.stdout.split()) == set()
