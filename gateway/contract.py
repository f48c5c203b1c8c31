"""The installed contract: services, the processes that serve them, and the policies of their methods.

`make protos` writes it beside the generated code: `services.json` is the `serves` part of `deploy/services.yaml`,
policy files have the policies, and `sources.binpb` has the descriptors with comments. A new service needs no change
here.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from chassis.policy import CONTRACT_ROOT, MethodPolicy, Policies, load_policies

GATEWAY = "gateway"
LIST = "services.json"
SOURCES = "sources.binpb"
_CLAUSES = re.compile(r" ?\([A-Z]-\d+(?:(?:, | to )[A-Z]-\d+)*\)")


@dataclass(frozen=True, slots=True)
class Contract:
    """The gRPC services by the name of the hansei service that serves them, and the policies of their methods."""

    services: Mapping[str, Sequence[ServiceDescriptor]]
    policies: Policies

    @property
    def peers(self) -> list[str]:
        """Return the names of the services behind the gateway."""
        return [name for name in self.services if name != GATEWAY]

    def list_methods(self) -> Iterator[MethodDescriptor]:
        """Yield every method that clients can call at the gateway."""
        for services in self.services.values():
            for service in services:
                yield from service.methods

    def get_server(self, method: MethodDescriptor) -> str:
        """Return the name of the service that serves a method. Raises KeyError."""
        service = method.containing_service.full_name
        for name, services in self.services.items():
            if any(descriptor.full_name == service for descriptor in services):
                return name
        raise KeyError(service)

    def get_policy(self, method: MethodDescriptor) -> MethodPolicy:
        """Return the policy of a method. Raises KeyError."""
        return self.policies[get_path(method)]


def get_path(method: MethodDescriptor) -> str:
    """Return the path of a method, such as `/hansei.search.v1.SearchService/Search`."""
    return f"/{method.containing_service.full_name}/{method.name}"


def get_kind(method: MethodDescriptor) -> str:
    """Return the kind of a method in the terms of grpc: `unary_stream` has one request and a stream of responses."""
    kinds = {False: "unary", True: "stream"}
    return f"{kinds[method.client_streaming]}_{kinds[method.server_streaming]}"


@cache
def load_contract() -> Contract:
    """Return the contract on the import path; it is read once a process.

    Raises KeyError if the list of services names one without generated code.
    """
    roots = [Path(root) for root in importlib.import_module(CONTRACT_ROOT).__path__]
    for root in roots:
        for file in sorted(root.glob("*/v*/*_service_pb2.py")):
            importlib.import_module(".".join((CONTRACT_ROOT, *file.relative_to(root).with_suffix("").parts)))
    pool = descriptor_pool.Default()
    services = {
        name: [pool.FindServiceByName(full_name) for full_name in full_names]
        for root in roots
        for file in root.glob(LIST)
        for name, full_names in json.loads(file.read_text(encoding="utf-8")).items()
    }
    return Contract(services, load_policies())


@cache
def load_comments() -> Mapping[str, str]:
    """Return the comments of the protos by the full names of declarations; they are read once a process."""
    return {
        _name_at(file, location.path): format_comment(location.leading_comments)
        for root in importlib.import_module(CONTRACT_ROOT).__path__
        for path in Path(root).glob(f"*/v*/{SOURCES}")
        for file in descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes()).file
        for location in file.source_code_info.location
        if location.leading_comments and len(location.path) % 2 == 0
    }


def format_comment(comment: str) -> str:
    """Return a comment on one line, without the ids of clauses of the specification, which users do not know."""
    return _CLAUSES.sub("", " ".join(comment.split()))


def _name_at(file: descriptor_pb2.FileDescriptorProto, path: Sequence[int]) -> str:
    """Return the full name of the declaration at a path: pairs of a field's number and a position in it."""
    declaration: Any = file
    names = [file.package]
    for number, position in zip(path[::2], path[1::2], strict=True):
        declaration = getattr(declaration, declaration.DESCRIPTOR.fields_by_number[number].name)[position]
        names.append(declaration.name)
    return ".".join(names)
