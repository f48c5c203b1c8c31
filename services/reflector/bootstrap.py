"""Composes the reflector, with a model or with rules."""

from __future__ import annotations

from functools import partial

from chassis import deadlines
from chassis.channels import Peers
from chassis.server.service import Registration, Service
from hansei.reflector.v1 import reflector_service_pb2_grpc
from libs.llm.client import LLMClient
from libs.llm.connect import connect_chat
from services.reflector.adapters.chat_model import ChatReflectionModel
from services.reflector.adapters.importers.files import read_trajectories
from services.reflector.prompts.builder import ReflectorPrompts
from services.reflector.rpc.servicer import ReflectorServicer
from services.reflector.settings import ReflectorSettings
from services.reflector.usecases.ports import Reflector
from services.reflector.usecases.reflect_offline import OfflineReflector
from services.reflector.usecases.reflect_with_model import ReflectorAgent


def build(settings: ReflectorSettings, peers: Peers) -> Service:
    """Return the reflector service; it calls no peers. Raise BadSetting, such as a missing key (G-08)."""
    client = connect_chat(settings, remaining=partial(deadlines.compute_budget, None), default_temperature=0.0)
    servicer = ReflectorServicer(_build_reflector(client, settings), read_trajectories)
    return Service(
        name="reflector",
        registrations=[Registration(reflector_service_pb2_grpc.add_ReflectorServiceServicer_to_server, servicer)],
        close=client.aclose,
    )


def _build_reflector(client: LLMClient, settings: ReflectorSettings) -> Reflector:
    if client.is_offline:
        return OfflineReflector()
    chars = settings.reflector_transcript_chars
    prompts = ReflectorPrompts(settings.prompts_dir / "reflector", settings.language)
    return ReflectorAgent(ChatReflectionModel(client, settings.llm_model), prompts, chars)
