"""Conversion between API keys with their scopes and their messages."""

from __future__ import annotations

from collections.abc import Iterable

from chassis.server.messages import encode, encode_enum
from gateway.access.domain.api_key import ApiKey
from gateway.access.domain.principal import SCOPES
from hansei.gateway.v1 import access_service_pb2 as pb

_SCOPE_NUMBERS = {scope: encode_enum(pb.AccessScope.DESCRIPTOR, scope) for scope in SCOPES}
_SCOPE_NAMES = {number: scope for scope, number in _SCOPE_NUMBERS.items()}


def encode_key(key: ApiKey) -> pb.ApiKey:
    """Return the message of a key."""
    return encode(
        key,
        pb.ApiKey,
        scopes=encode_scopes(key.scopes),
        calls_per_second=key.allowance.calls_per_second,
        calls_per_day=key.allowance.calls_per_day,
    )


def encode_scopes(scopes: Iterable[str]) -> list[int]:
    """Return the numbers of scopes, in ascending order."""
    return sorted(_SCOPE_NUMBERS[scope] for scope in scopes)


def decode_scopes(numbers: Iterable[int]) -> list[str]:
    """Return the scopes of numbers, in their order."""
    return [_SCOPE_NAMES[number] for number in numbers]
