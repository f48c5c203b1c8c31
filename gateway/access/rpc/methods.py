"""The methods of the gateway with their policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from google.protobuf.descriptor import MethodDescriptor

from chassis.policy import MethodPolicy
from gateway.access.domain.principal import ANY
from gateway.contract import Contract, get_path

READ = "read"


@dataclass(frozen=True, slots=True)
class GuardedMethod:
    """A method and its policy."""

    path: str
    descriptor: MethodDescriptor
    policy: MethodPolicy

    @property
    def is_audited(self) -> bool:
        """Return whether the method changes something, so that its calls are recorded."""
        return self.policy.scope not in (READ, ANY)


def guard_methods(contract: Contract) -> Mapping[str, GuardedMethod]:
    """Return the methods by their paths. Raises KeyError for a method without a policy."""
    return {
        get_path(method): GuardedMethod(get_path(method), method, contract.get_policy(method))
        for method in contract.methods()
    }
