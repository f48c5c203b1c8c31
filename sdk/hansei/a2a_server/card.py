"""The agent card."""

from __future__ import annotations

from importlib.metadata import version

from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)
from a2a.utils.constants import PROTOCOL_VERSION_1_0, TransportProtocol

TEXT = "text/plain"
_BEARER = "bearer"


def build_card(url: str, grpc_url: str, *, requires_token: bool) -> AgentCard:
    """Return the card of an agent with a JSON-RPC binding at `url` and a gRPC binding at `grpc_url`."""
    interfaces = [(TransportProtocol.JSONRPC, url), (TransportProtocol.GRPC, grpc_url)]
    card = AgentCard(
        name="hansei",
        description="Answers questions from playbooks and documents, by plans whose steps search and reason. It asks a "
        "person if it is unsure.",
        version=version("hansei"),
        supported_interfaces=[
            AgentInterface(url=address, protocol_binding=binding, protocol_version=PROTOCOL_VERSION_1_0)
            for binding, address in interfaces
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=False),
        default_input_modes=[TEXT],
        default_output_modes=[TEXT],
        skills=[
            AgentSkill(
                id="plan",
                name="Answer a question with a plan",
                description="Makes a plan for a question or a task, executes it, and returns its answer. The metadata "
                "`collection` of a message names the playbook or the document collection to search.",
                tags=["plan", "search", "question answering"],
                examples=["How do I deploy the service?", "Why do commits fail on a new machine?"],
            )
        ],
    )
    if requires_token:
        scheme = HTTPAuthSecurityScheme(
            scheme=_BEARER, description="An API key of hansei, or a token of the issuer that hansei trusts."
        )
        card.security_schemes[_BEARER].CopyFrom(SecurityScheme(http_auth_security_scheme=scheme))
        card.security_requirements.append(SecurityRequirement(schemes={_BEARER: StringList()}))
    return card
