"""Settings of the planner."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from chassis.settings import ServiceSettings
from libs.llm.settings import LLMSettings


class PlannerSettings(LLMSettings, ServiceSettings):
    """Where the planner listens, which model answers, and where its prompts are."""

    listen_address: str = "127.0.0.1:50054"
    """Where gRPC is served, `host:port`. Port 0 takes a free one."""

    prompts_dir: Path = Path("prompts")
    """Folder with templates that replace built-in prompts: `generator/<dataset>.txt`, `generator/default.txt`."""

    language: Literal["ja", "en"] = "ja"
    """Language of the built-in prompts."""
