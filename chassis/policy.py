"""Policies of the methods of the contract: timeout, idempotency, retries and scope.

``<x>_policy.json`` is beside the proto, and `make protos` copies it beside the generated code:
``{"<full service>": {"<Method>": {"timeout_seconds": 5, "idempotency": "read", "retry": true, "scope": "read"}}}``.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

CONTRACT_ROOT = "hansei"
SUFFIX = "_policy.json"
_REQUIRED = {"timeout_seconds", "idempotency", "retry"}
_OPTIONAL = ("scope", "shared", "creates", "longest_seconds", "routed_by")
Idempotency = Literal["read", "request_id", "natural", "none"]
"""`natural`: a repeated call finds the stored result of the first call, and changes nothing."""


@dataclass(frozen=True, slots=True)
class MethodPolicy:
    """The timeout in seconds (None: no limit), the reason why a retry is harmless, and whether one is made.

    ``longest_seconds`` is the longest deadline that a caller may set for a method whose work depends on a model,
    instead of the timeout (None: the timeout).

    ``routed_by`` is the request field, such as `dataset`, whose value chooses the replica that serves the call (empty:
    any replica serves it), see `chassis.replicas`.

    For a guard: the ``scope`` that a caller needs (empty: none), whether the method acts on data ``shared`` by all
    tenants, and the response field with the name of a resource that the method ``creates``.
    """

    timeout_seconds: float | None
    idempotency: Idempotency
    retry: bool
    scope: str = ""
    shared: bool = False
    creates: str = ""
    longest_seconds: float | None = None
    routed_by: str = ""


Policies = Mapping[str, MethodPolicy]
"""Method path (``/hansei.search.v1.SearchService/Search``) to its policy."""


HEALTH_POLICIES: Policies = {
    "/grpc.health.v1.Health/Check": MethodPolicy(5.0, "read", retry=False),
    "/grpc.health.v1.Health/List": MethodPolicy(5.0, "read", retry=False),
    "/grpc.health.v1.Health/Watch": MethodPolicy(None, "read", retry=False),
}
"""The methods of the standard health service, which every server has."""


def parse(text: str) -> dict[str, MethodPolicy]:
    """Return the policies of one file. Raises ValueError with the method and the rule it breaks."""
    return {
        f"/{service}/{method}": _build_method_policy(f"{service}/{method}", entry)
        for service, methods in json.loads(text).items()
        for method, entry in methods.items()
    }


def _build_method_policy(name: str, entry: Mapping[str, Any]) -> MethodPolicy:
    if not _REQUIRED <= set(entry) <= _REQUIRED | set(_OPTIONAL):
        rule = f"must have timeout_seconds, idempotency and retry, and may have {', '.join(_OPTIONAL)}"
        raise ValueError(f"policy of {name} {rule}; it has {sorted(entry)}")
    timeout, idempotency, retry = entry["timeout_seconds"], entry["idempotency"], entry["retry"]
    if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
        raise ValueError(f"policy of {name}: timeout_seconds must be above 0 or null, not {timeout!r}")
    longest = entry.get("longest_seconds")
    if longest is not None and not (isinstance(longest, int | float) and timeout is not None and longest > timeout):
        raise ValueError(f"policy of {name}: longest_seconds must be above timeout_seconds, not {longest!r}")
    if idempotency not in get_args(Idempotency):
        raise ValueError(f"policy of {name}: idempotency must be one of {get_args(Idempotency)}, not {idempotency!r}")
    if entry.get("routed_by") and not retry:
        raise ValueError(f"policy of {name}: only methods that are retried may have routed_by")
    if not isinstance(retry, bool) or (retry and idempotency == "none"):
        raise ValueError(f"policy of {name}: only idempotent methods may be retried")
    return MethodPolicy(timeout, idempotency, retry, **{name: entry[name] for name in _OPTIONAL if name in entry})


@cache
def load_policies() -> Policies:
    """Return the policies of all contracts on the import path; they are read once a process."""
    found: dict[str, MethodPolicy] = {}
    for file in _list_policy_files():
        found.update(parse(file.read_text(encoding="utf-8")))
    return MappingProxyType(found)


def _list_policy_files() -> Iterator[Path]:
    for root in importlib.import_module(CONTRACT_ROOT).__path__:
        yield from sorted(Path(root).glob(f"*/v*/*{SUFFIX}"))
