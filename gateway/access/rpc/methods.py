"""The methods of the gateway with their policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

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


def guard_methods(
    contract: Contract, others: Mapping[MethodDescriptor, MethodPolicy] = MappingProxyType({})
) -> Mapping[str, GuardedMethod]:
    """Return the methods of the contract, and those of other contracts with their policies, by their paths.

    Raises KeyError for a method without a policy.
    """
    policies = {method: contract.get_policy(method) for method in contract.list_methods()} | dict(others)
    return {get_path(method): GuardedMethod(get_path(method), method, policy) for method, policy in policies.items()}
