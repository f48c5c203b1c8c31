"""The provider of chat models of the stack that a command or `Client.local()` runs: without a key it starts offline."""

from __future__ import annotations

import os
from collections.abc import Mapping

OFFLINE = "offline"
PROVIDER_VARIABLE = "HANSEI_LLM_PROVIDER"


def choose_llm_provider(variables: Mapping[str, str] | None = None) -> str:
    """Return the provider of chat models for a stack in this process.

    That of `variables` and the environment, else openai if its key or address is set, else offline.
    """
    settings = {**os.environ, **(variables or {})}

    def get_variable(name: str) -> str:
        return settings.get(f"HANSEI_{name}") or settings.get(name, "")

    chosen = get_variable("LLM_PROVIDER")
    return chosen or ("openai" if get_variable("OPENAI_API_KEY") or get_variable("OPENAI_BASE_URL") else OFFLINE)
