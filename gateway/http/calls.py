"""Calls of the contract's methods for HTTP requests: what the caller may, within the time that the policy allows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Protocol

from google.protobuf.descriptor import MethodDescriptor
from starlette.requests import Request

from chassis import deadlines
from chassis.guard import Authorization
from gateway.contract import Contract, path_of
from gateway.http.auth import Authentication


class Methods(Protocol):
    """The methods of the contract as functions."""

    def function(self, method: MethodDescriptor) -> Callable[[Any], Any]:
        """Return a function of requests; the bytes it answers with are awaited, or iterated over."""
        ...


class ContractCalls:
    """Calls methods with requests that were validated; responses are in their wire form."""

    def __init__(self, contract: Contract, methods: Methods, authentication: Authentication) -> None:
        self._contract = contract
        self._methods = methods
        self._authentication = authentication

    async def unary(self, method: MethodDescriptor, request: Request, message: Any) -> bytes:
        """Return the response to a message, or to the list of messages of a stream. Raises HanseiError."""
        call = self._methods.function(method)
        async with self._authentication.permit(path_of(method), request) as permit:
            with deadlines.time_limit(self.seconds(method)):
                many = isinstance(message, list)
                allowed = _allowed(permit, message) if many else await permit.request(message)
                response: bytes = await permit.response(await call(allowed))
                return response

    async def stream(self, method: MethodDescriptor, request: Request, message: Any) -> AsyncIterator[bytes]:
        """Yield the responses to a message. Raises HanseiError."""
        call = self._methods.function(method)
        async with (
            self._authentication.permit(path_of(method), request) as permit,
            aclosing(call(await permit.request(message))) as responses,
        ):
            async for response in responses:
                yield await permit.response(response)

    def seconds(self, method: MethodDescriptor) -> float | None:
        """Return how long a call of a method may take; None if it never ends by itself."""
        return self._contract.policy_of(method).timeout_seconds


async def _allowed(permit: Authorization, messages: Sequence[Any]) -> AsyncIterator[Any]:
    for message in messages:
        yield await permit.request(message)
