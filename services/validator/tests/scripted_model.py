"""A model that gives prepared answers and records its prompts."""

from __future__ import annotations

import json
from collections.abc import Iterable

from services.validator.usecases.ports import ModelAnswer

Answer = object
"""Returns texts unchanged, raises exceptions, and returns other values as JSON."""


class ScriptedModel:
    def __init__(self, answers: Iterable[Answer]) -> None:
        self._answers = iter(answers)
        self.prompts: list[str] = []

    async def answer(self, prompt: str) -> ModelAnswer:
        self.prompts.append(prompt)
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        return ModelAnswer(text, input_tokens=len(prompt), output_tokens=len(text))
