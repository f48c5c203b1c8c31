"""Call each configured model once, for `hansei doctor`."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from allinone.parts import load_settings_class
from chassis.errors import BadSetting, HanseiError
from chassis.server.cpu import CpuPool
from chassis.settings import read_settings
from libs.embedding.connect import connect_embedding_model
from libs.embedding.remote import RemoteModel
from libs.embedding.settings import EmbeddingSettings
from libs.llm.connect import connect_chat
from libs.llm.providers import OFFLINE
from libs.llm.settings import LLMSettings
from services.planner.config import load_grace_config
from services.planner.settings import PlannerSettings
from services.validator.bootstrap import judge_models
from services.validator.domain.evaluation import ModelId
from services.validator.settings import ValidatorSettings

SECONDS = 20.0
PROMPT = "Answer with the word OK."


@dataclass(frozen=True, slots=True)
class ModelProbe:
    """The result of one call; `error` is empty if the model answered. `remedy` is that of the error, if it has one."""

    kind: str
    provider: str
    model: str
    users: Sequence[str]
    seconds: float
    has_price: bool
    error: str = ""
    remedy: str = ""


def probe_models() -> list[ModelProbe]:
    """Call each configured chat and embedding model once; offline chat models are left out. Raises BadSetting."""
    return asyncio.run(_probe_models())


async def _probe_models() -> list[ModelProbe]:
    settings = read_settings(LLMSettings)
    users = _group_chat_model_users(settings)
    probes = [await _probe_chat_model(settings, *model, names) for model, names in users.items()]
    return [*probes, *[probe async for probe in _probe_embedding_models()]]


def _group_chat_model_users(settings: LLMSettings) -> Mapping[tuple[str, str], list[str]]:
    """Return who uses each chat model, by provider and model."""
    shared = settings.llm_provider, settings.llm_model
    planner, validator = read_settings(PlannerSettings), read_settings(ValidatorSettings)
    scoring, judging = (ModelId.parse(model) for model in judge_models(validator, settings))
    planning = shared if settings.is_offline else load_grace_config(planner.grace_config).llm.choose_model(*shared)
    chosen = {
        "reflector": shared,
        "curator": shared,
        "answers": shared,
        "plans": planning,
        "evaluator": (scoring.provider, scoring.name),
        "judge": (judging.provider, judging.name),
    }
    users: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, model in chosen.items():
        if model[0] != OFFLINE:
            users[model].append(name)
    return users


async def _probe_chat_model(settings: LLMSettings, provider: str, model: str, users: Sequence[str]) -> ModelProbe:
    own = {"llm_provider": provider, "llm_model": model, "llm_retries": 0, "llm_attempt_seconds": SECONDS}
    started, error, remedy = time.monotonic(), "", ""
    try:
        client = connect_chat(settings.model_copy(update=own))
        try:
            await client.ainvoke([("human", PROMPT)])
        finally:
            await client.aclose()
    except (BadSetting, HanseiError) as failure:
        error, _, remedy = str(failure).partition("\n")
    seconds = time.monotonic() - started
    return ModelProbe("chat", provider, model, users, seconds, settings.get_price(model) is not None, error, remedy)


async def _probe_embedding_models() -> AsyncIterator[ModelProbe]:
    """Embed a text with the models of the curator and of search, once if both have the same settings."""
    users: list[tuple[EmbeddingSettings, list[str]]] = []
    for name in ("curator", "search"):
        service_settings = read_settings(load_settings_class(name))
        own = {field: getattr(service_settings, field) for field in EmbeddingSettings.model_fields}
        settings = EmbeddingSettings.model_construct(**{**own, "llm_retries": 0, "llm_attempt_seconds": SECONDS})
        names = next((names for other, names in users if other == settings), None)
        if names is None:
            users.append((settings, [name]))
        else:
            names.append(name)
    for settings, names in users:
        yield await _probe_embedding_model(settings, names)


async def _probe_embedding_model(settings: EmbeddingSettings, users: Sequence[str]) -> ModelProbe:
    provider, model = settings.embedding_provider or settings.llm_provider, settings.embedding_model
    is_local, error, remedy = False, "", ""
    started = time.monotonic()
    async with AsyncExitStack() as closing:
        pool = CpuPool("probe", workers=1)
        closing.push_async_callback(pool.close)
        try:
            connected = connect_embedding_model(settings, pool, closing)
            model, is_local = connected.model_id, not isinstance(connected, RemoteModel)
            started = time.monotonic()
            await connected.embed([PROMPT])
        except (BadSetting, HanseiError) as failure:
            error, _, remedy = str(failure).partition("\n")
    has_price = is_local or settings.get_price(settings.embedding_model) is not None
    seconds = time.monotonic() - started
    shown_provider = "bundled" if is_local else provider
    return ModelProbe("embedding", shown_provider, model, users, seconds, has_price, error, remedy)
