"""Modules that the fork server imports once, so that a service starts in milliseconds instead of seconds.

A forked process differs from a started one: it has imported all of this, and shares the hash seed, the key of fences
in prompts and the number of threads for linear algebra. `tests/behaviour/system/test_starts.py` therefore starts each
service by `python -m`.
"""

from __future__ import annotations

import gc
from importlib import import_module

from services.search.adapters.loops import load_loops

MODULES = (
    "allinone.bootstrap",
    # The command line, for tests/support/forked_command.py.
    "hansei.client.cli.root",
    "hansei.client.client",
    "hansei.client.local",
    "hansei.mcp_server",
    # Services import these later or not at all, but many processes of tests create schemas, serve HTTP, call models.
    "alembic.command",
    "gateway.http.app",
    "gateway.http.server",
    "httpx",
    "langchain_openai",
    "openai.resources.chat.completions",
    "opentelemetry.sdk.resources",
    "psycopg",
    "services.validator.domain.bradley_terry",
)

for module in MODULES:
    import_module(module)
load_loops()
# The collector writes to the objects that it visits, and so would copy the memory that all processes share.
gc.collect()
gc.freeze()
