"""Settings of the reflector."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from chassis.settings import ServiceSettings
from libs.llm.settings import LLMSettings


class ReflectorSettings(LLMSettings, ServiceSettings):
    """Where the reflector listens, which model reflects, and what its prompts are made of."""

    listen_address: str = "127.0.0.1:50052"
    """Where gRPC is served, `host:port`. Port 0 takes a free one."""

    prompts_dir: Path = Path("prompts")
    """Folder with templates that replace built-in prompts: `reflector/<dataset>.txt`, `reflector/default.txt`,
    `reflector/bullet_evaluation.txt`."""

    language: Literal["ja", "en"] = "ja"
    """Language of the built-in prompts. Offline lessons are written in the language of the run."""

    reflector_transcript_chars: int = Field(60_000, ge=2_000)
    """Characters of a run's steps that go into a prompt. Longer ones are reduced by importance; the same limit holds
    for each of question, answer, ground truth and test report."""
