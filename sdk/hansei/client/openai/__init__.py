"""OpenAI's client with a memory: prompts get the bullets that match, and hansei learns from the session.

    from openai import OpenAI
    from hansei.client import Client
    from hansei.client.openai import AgentSession

    with Client() as hansei, AgentSession(OpenAI(), hansei, "devtools") as session:
        reply = session.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": task}])
        if tests_pass(reply):
            session.mark_success()
        else:
            session.mark_failure("2 tests failed")

Requires the extra `openai`. `AsyncAgentSession` is the same for `AsyncOpenAI` and `AsyncClient`.
"""

from __future__ import annotations

from hansei.client.extras import import_from_extra

with import_from_extra("openai", "openai"):
    from hansei.client.openai.session import PREAMBLE, AgentSession, AsyncAgentSession

__all__ = ["PREAMBLE", "AgentSession", "AsyncAgentSession"]
