"""Composition of the planner: the only place that knows which adapters stand behind its use cases."""

from __future__ import annotations

from functools import partial

from chassis import deadlines
from chassis.channels import Peers
from chassis.service import Registration, Service
from hansei.planner.v1 import generator_service_pb2_grpc
from libs.llm.client import LLMClient
from libs.llm.connect import connect_chat
from services.planner.adapters.answerers import ModelAnswerer, OfflineAnswerer
from services.planner.rpc.generator_servicer import GeneratorServicer
from services.planner.settings import PlannerSettings
from services.planner.usecases.generate import Answerer, GeneratorAgent


def build(settings: PlannerSettings, peers: Peers) -> Service:
    """The planner service. Raises BadSetting, as when the provider needs a key that is not set (G-08)."""
    client = connect_chat(settings, remaining=partial(deadlines.budget, None))
    generator = GeneratorAgent(_answerer(client, settings))
    return Service(
        name="planner",
        registrations=[
            Registration(
                generator_service_pb2_grpc.add_GeneratorServiceServicer_to_server, GeneratorServicer(generator)
            )
        ],
        close=client.aclose,
    )


def _answerer(client: LLMClient, settings: PlannerSettings) -> Answerer:
    if client.is_offline:
        return OfflineAnswerer()
    return ModelAnswerer(client, settings.llm_model, settings.prompts_dir, settings.language)
