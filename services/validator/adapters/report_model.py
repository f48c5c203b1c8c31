"""The configured chat model as a writer of reports."""

from __future__ import annotations

from services.validator.adapters.chat_models import OneCallModels
from services.validator.usecases.generate_report import ModelAnswer

TEMPERATURE = 0.3


class ChatReportModel:
    """Asks the model of LLM_PROVIDER and LLM_MODEL for a JSON object, once per prompt (V-36)."""

    def __init__(self, models: OneCallModels) -> None:
        self._models = models

    async def answer(self, prompt: str) -> ModelAnswer:
        """The answer to one prompt. Raises ModelKeyMissing, ModelOffline, ModelCallFailed."""
        reply = await self._models.configured(TEMPERATURE, json_object=True).ask([("human", prompt)])
        return ModelAnswer(reply.text, reply.input_tokens, reply.output_tokens)
