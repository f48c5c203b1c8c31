"""Settings of the reflector."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from chassis.settings import ServiceSettings
from libs.llm.settings import LLMSettings
from libs.prompts.language import LanguageSetting


class ReflectorSettings(LLMSettings, ServiceSettings):
    """Settings of the reflector: address, model and prompts."""

    listen_address: str = "127.0.0.1:50052"
    """Address of the gRPC server, `host:port`. Port 0 selects a free one."""

    prompts_dir: Path = Path("prompts")
    """Folder with templates that replace built-in prompts: `reflector/<dataset>.txt`, `reflector/default.txt`,
    `reflector/bullet_evaluation.txt`."""

    language: LanguageSetting = "auto"
    """Language of the built-in prompts: `ja`, `en`, or `auto` for the language of the trajectory. Lessons always have
    the language of the trajectory."""

    reflector_transcript_chars: int = Field(400_000, ge=2_000)
    """Maximum characters of a trajectory and its data in a prompt. A trajectory that exceeds this or the context of the
    model is shortened, the least important steps first."""
