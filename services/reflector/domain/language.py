"""The language of a trajectory, and of its lessons."""

from __future__ import annotations

from libs.prompts import language
from libs.prompts.language import Language
from services.reflector.domain.trajectory import Trajectory

_READ_STEPS = 20


def detect_language(trajectory: Trajectory) -> Language:
    """Return the language in which people and agents write."""
    spoken = [step.content for step in trajectory.transcript if step.role in ("user", "assistant")][:_READ_STEPS]
    return language.detect_language(trajectory.query, trajectory.generated_answer, *spoken)
