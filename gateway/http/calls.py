"""Authorized calls of the contract's methods for HTTP requests, with the timeouts of the policies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Protocol

from google.protobuf.descriptor import MethodDescriptor
from starlette.requests import Request

from chassis import deadlines
from chassis.guard import Authorization
from gateway.contract import Contract, get_path
from gateway.http.auth import Authentication


class Methods(Protocol):
    """The methods of the contract as functions."""

    def get_function(self, method: MethodDescriptor) -> Callable[[Any], Any]:
        """Return a function from requests to an awaitable, or an iterator, of serialized responses."""


class ContractCalls:
    """Call methods with validated requests; responses are serialized messages."""

    def __init__(self, contract: Contract, methods: Methods, authentication: Authentication) -> None:
        self._contract = contract
        self._methods = methods
        self._authentication = authentication

    async def unary(self, method: MethodDescriptor, request: Request, message: Any) -> bytes:
        """Return the response to a message, or to the list of messages of a stream. Raises HanseiError."""
        call = self._methods.get_function(method)
        async with self._authentication.authorize(get_path(method), request) as authorization:
            with deadlines.time_limit(self.seconds(method)):
                if isinstance(message, list):
                    message = _authorize_all(authorization, message)
                else:
                    message = await authorization.check_request(message)
                response: bytes = await authorization.check_response(await call(message))
                return response

    async def stream(self, method: MethodDescriptor, request: Request, message: Any) -> AsyncIterator[bytes]:
        """Yield the responses to a message. Raises HanseiError."""
        call = self._methods.get_function(method)
        async with (
            self._authentication.authorize(get_path(method), request) as authorization,
            aclosing(call(await authorization.check_request(message))) as responses,
        ):
            async for response in responses:
                yield await authorization.check_response(response)

    def seconds(self, method: MethodDescriptor) -> float | None:
        """Return the timeout of a method; None if it has none."""
        return self._contract.get_policy(method).timeout_seconds


async def _authorize_all(authorization: Authorization, messages: Sequence[Any]) -> AsyncIterator[Any]:
    for message in messages:
        yield await authorization.check_request(message)
