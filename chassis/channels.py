"""Channels to peers: one for each, for the life of the process; every call has a deadline, a trace and a policy.

A call to the own process that has one response needs no connection (`chassis.own_server`).

A call whose policy has `routed_by` goes to an owner of that value among the peer's replicas (`chassis.replicas`), every
other call to the next healthy replica. A failed call raises the peer's own error (`chassis.errors`), not gRPC's. The
channel's service config holds the retry policy: idempotent methods are retried, on UNAVAILABLE only. A service can
refuse retries in its trailers, see `chassis.status`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.trace import Span, SpanKind

from chassis import deadlines, status, telemetry
from chassis.calls import CORRELATION_ID_KEY, get_correlation_id
from chassis.channel_options import build_channel_options, build_target
from chassis.connection import Connection
from chassis.errors import ClientClosed, FailedPrecondition
from chassis.guard import AUTHORIZATION, own_credential
from chassis.own_server import OwnMethod, OwnServer
from chassis.policy import HEALTH_POLICIES, MethodPolicy, Policies, load_policies

if TYPE_CHECKING:
    from chassis.replicas import Replica, ReplicaAddress, Replicas
    from chassis.settings import ServiceSettings
    from chassis.tls import Bundle, Certificates

OWN = "self"
"""The address of a peer in the same process."""

SHARE_OF_SERVED_CALL = 0.6
"""The share of the remaining time of a served call that one call to a peer may take, if its policy allows longer."""
SILENCE_SECONDS = 1.0
"""A replica that answers no call while one of this length ends by its deadline gets no routed calls for some time."""

Metadata = Sequence[tuple[str, str]]


class Peers:
    """Channels to the services that this process calls. `own` is the server of this process, the address `OWN`."""

    def __init__(
        self,
        addresses: Mapping[str, str],
        *,
        own: OwnServer | None = None,
        policies: Policies | None = None,
        max_message_bytes: int = 16 * 1024 * 1024,
        certificates: Certificates | None = None,
        plaintext: Sequence[str] = ("grpc",),
        credential: str = "",
        tls: grpc.ChannelCredentials | None = None,
        routed: bool = False,
    ) -> None:
        """Take the addresses of peers by name. Calls send `credential` as `authorization`.

        With `routed`, calls about one resource go to the replicas that own it; otherwise to any replica.

        Calls use TLS with `certificates`, or with `tls`, which are credentials that never change. Without both, calls
        leave this machine only if `plaintext` contains grpc.
        """
        self._addresses = dict(addresses)
        self._own = own
        self._policies = {**HEALTH_POLICIES, **(load_policies() if policies is None else policies)}
        self._max_message_bytes = max_message_bytes
        self._certificates = certificates
        self._plaintext = plaintext
        self._tls = tls
        self._routed = routed
        self._metadata = ((AUTHORIZATION, credential),) if credential else ()
        self._channels: dict[str, PeerChannel] = {}

    @classmethod
    def from_settings(cls, settings: ServiceSettings, own: OwnServer, certificates: Certificates | None) -> Peers:
        """Return the peers at the addresses of the settings."""
        return cls(
            settings.list_peer_addresses(),
            own=own,
            max_message_bytes=settings.max_message_bytes,
            certificates=certificates,
            plaintext=settings.plaintext_kinds,
            routed=True,
        )

    @property
    def own_address(self) -> str:
        """Return the address of this process with its real port; empty if it does not serve."""
        return "" if self._own is None else self._own.address

    def get_channel(self, peer: str) -> PeerChannel:
        """Return the channel to a peer, for generated stubs; it connects on first use. Needs a running loop.

        Raises `FailedPrecondition` if the peer has no address.
        """
        if peer not in self._channels:
            address = self._addresses.get(peer)
            if not address:
                raise FailedPrecondition(f"{peer.upper()}_ADDR is not set", reason="PEER_ADDRESS_MISSING")
            if self._certificates is None and self._tls is None and address != OWN:
                from chassis.tls import require_plaintext_allowed

                require_plaintext_allowed("grpc", address, f"{peer.upper()}_ADDR", self._plaintext)
            connection = Connection(lambda bundle: self._dial(address, bundle), self._certificates)
            metadata = ((AUTHORIZATION, own_credential()),) if address == OWN else self._metadata
            routed = self._routed and address != OWN
            create_replicas = partial(self._create_replicas, peer, address) if routed else None
            own = self._own if address == OWN else None
            self._channels[peer] = PeerChannel(peer, connection, self._policies, metadata, create_replicas, own)
        return self._channels[peer]

    def _create_replicas(self, peer: str, address: str) -> Replicas | None:
        """Return the replicas behind an address; None for an address that cannot have several."""
        # Only servers route; clients start faster without the logging that this module needs.
        from chassis.replicas import Replicas, parse_static_list, split_host_and_port

        static = parse_static_list(address)
        if static is not None and len(static) < 2:
            return None
        # The certificates of replicas are issued for the name of the service, not for their addresses.
        name = split_host_and_port(address)[0] if static is None else ""

        def connect(replica: ReplicaAddress) -> Connection:
            return Connection(lambda bundle: self._dial(replica.target, bundle, name), self._certificates)

        return Replicas(peer, address, connect)

    def _dial(self, address: str, bundle: Bundle | None, tls_name: str = "") -> grpc.aio.Channel:
        own = address == OWN
        options = build_channel_options(self._policies, self._max_message_bytes, follow_health=not own)
        name = build_target(self.own_address if own else address)
        if tls_name:
            options.append(("grpc.ssl_target_name_override", tls_name))
        if self._tls is not None:
            return grpc.aio.secure_channel(name, self._tls, options=options)
        if bundle is None:
            return grpc.aio.insecure_channel(name, options=options)
        from chassis.tls import build_credentials

        if own and bundle.names:
            # The certificate of this process is issued for its name, not for its address.
            options.append(("grpc.ssl_target_name_override", bundle.names[0]))
        return grpc.aio.secure_channel(name, build_credentials(bundle), options=options)

    async def close(self) -> None:
        """Close all channels; calls in progress on them are cancelled."""
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close(None)


class _Method:
    """A method on the current channel."""

    def __init__(self, connection: Connection, bind: Callable[[grpc.aio.Channel], Any]) -> None:
        self._connection = connection
        self._bind = bind
        self._channel = connection.channel
        self._call = bind(self._channel)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        channel = self._connection.get_channel()
        if channel is not self._channel:
            self._channel, self._call = channel, self._bind(channel)
        return self._call(*args, **kwargs)


class _RoutedMethod:
    """A method with one request and one response, on an owner of the value of one field of the request.

    If the first owner cannot be reached, the second one serves the call, and then any replica (`unrouted`).
    """

    def __init__(
        self,
        replicas: Replicas,
        read_key: Callable[[Any], str],
        bind: Callable[[Connection], _Method],
        unrouted: _Method,
        cache_key: tuple[object, ...],
    ) -> None:
        self._replicas = replicas
        self._read_key = read_key
        self._bind = bind
        self._unrouted = unrouted
        self._cache_key = cache_key  # of the bound methods: a stub may be made for each call

    async def __call__(self, request: Any, *, timeout: float | None, metadata: Metadata) -> Any:  # noqa: ASYNC109
        replicas, key = self._replicas, self._read_key(request)
        until = None if timeout is None else time.monotonic() + timeout
        for replica in replicas.choose(key):
            method = replica.methods.get(self._cache_key)
            if method is None:
                method = replica.methods[self._cache_key] = self._bind(replica.connection)
            replicas.count(key, replica)
            answers = replica.answers
            replicas.record_call_start(replica)
            try:
                response = await method(request, timeout=timeout, metadata=metadata)
                replica.answers += 1
                return response
            except grpc.aio.AioRpcError as failure:
                if not status.is_unreachable(failure):
                    self._record_failure(replica, failure, answers, timeout)
                    raise
                replica.suspend()
            finally:
                replicas.record_call_end(replica)
            timeout = None if until is None else until - time.monotonic()
        replicas.count(key, None)
        return await self._unrouted(request, timeout=timeout, metadata=metadata)

    @staticmethod
    def _record_failure(replica: Replica, failure: grpc.aio.AioRpcError, answers: int, timeout: float | None) -> None:
        """Suspend a replica that responded to no call during one of a second or more; an error is a response, too."""
        if failure.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
            replica.answers += 1
        elif replica.answers == answers and timeout is not None and timeout >= SILENCE_SECONDS:
            replica.suspend()


def build_key_reader(path: str, field: str) -> Callable[[Any], str]:
    """Return a function of the requests of a method, messages or bytes, that returns the value of a field."""

    @cache
    def get_request_class() -> Any:
        service, _, method = path.lstrip("/").partition("/")
        descriptor = descriptor_pool.Default().FindServiceByName(service).FindMethodByName(method)
        return GetMessageClass(descriptor.input_type)

    def read_key(request: Any) -> str:
        if type(request) is bytes:
            try:
                request = get_request_class().FromString(request)
            except DecodeError:
                return ""  # the peer refuses it
        value: str = getattr(request, field)
        return value

    return read_key


class PeerChannel(grpc.aio.Channel):
    """A channel whose calls carry deadline, correlation id and trace, and raise the peer's own errors.

    It wraps the calls rather than using ``grpc.aio`` interceptors, which cost a task for each call.
    """

    def __init__(
        self,
        peer: str,
        connection: Connection,
        policies: Policies,
        metadata: Metadata = (),
        create_replicas: Callable[[], Replicas | None] | None = None,
        own: OwnServer | None = None,
    ) -> None:
        """`own` is the server of this process, if the channel is connected to it."""
        self._peer = peer
        self._own = own
        self.replicas: Replicas | None = None
        """The replicas of the peer, from the first stub with a routed method on."""
        self._create_replicas = create_replicas
        self._connection = connection
        self._policies = policies
        self._metadata = metadata

    def with_credential(self, credential: str) -> PeerChannel:
        """Return a channel on the connection of this one, which closes it, whose calls send another credential."""
        metadata = ((AUTHORIZATION, credential),) if credential else ()
        return PeerChannel(self._peer, self._connection, self._policies, metadata)

    def unary_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Return a callable for a method with one request and one response, routed if its policy says so."""
        peer_method = self._get_method(method)
        unrouted = self._bind_method("unary_unary", method, *args, **kwargs)
        policy = self._policies[method]
        if self._own is not None:
            return peer_method.single(OwnMethod(self._own, method, unrouted, policy.retry, *args, **kwargs))
        field = policy.routed_by
        if field and self._create_replicas is not None:
            self.replicas, self._create_replicas = self._create_replicas(), None
        if self.replicas is None or not field:
            return peer_method.single(unrouted)

        def bind(connection: Connection) -> _Method:
            return _Method(connection, lambda channel: channel.unary_unary(method, *args, **kwargs))

        cache_key = (method, *args, *kwargs.values())
        read_key = build_key_reader(method, field)
        return peer_method.single(_RoutedMethod(self.replicas, read_key, bind, unrouted, cache_key))

    def stream_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Return a method with a stream of requests and one response."""
        return self._get_method(method).single(self._bind_method("stream_unary", method, *args, **kwargs))

    def unary_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Return a method with a stream of responses."""
        return self._get_method(method).stream(self._bind_method("unary_stream", method, *args, **kwargs))

    def stream_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Return a method with a stream of requests and a stream of responses."""
        return self._get_method(method).stream(self._bind_method("stream_stream", method, *args, **kwargs))

    def _bind_method(self, arity: str, *args: Any, **kwargs: Any) -> _Method:
        return _Method(self._connection, lambda channel: getattr(channel, arity)(*args, **kwargs))

    def _get_method(self, path: str) -> _PeerMethod:
        policy = self._policies.get(path)
        if policy is None:
            raise LookupError(f"no policy for {path}: every method of the contract has one")
        method = _PeerMethod(self._peer, path, policy, self._connection, self._metadata)
        method.require_open()
        return method

    async def __aenter__(self) -> PeerChannel:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close(None)

    async def close(self, grace: float | None = None) -> None:
        """Close the connections; calls in progress get `grace` seconds."""
        if self.replicas is not None:
            await self.replicas.close()
        await self._connection.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """Return the state of the connection."""
        return self._connection.channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """Wait until the state changes."""
        await self._connection.channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """Wait until the connection is established."""
        await self._connection.channel.channel_ready()


class _PeerMethod:
    def __init__(self, peer: str, path: str, policy: MethodPolicy, connection: Connection, metadata: Metadata) -> None:
        self._peer = peer
        self._policy = policy
        self._connection = connection
        self._own_metadata = metadata
        self._telemetry = telemetry.MethodTelemetry(path, SpanKind.CLIENT)

    def single(self, inner: Any) -> Any:
        """Return a coroutine function that calls `inner`, which has one response."""

        # The signature is that of a grpc.aio multicallable.
        async def call(request: Any, *, timeout: float | None = None, metadata: Metadata = ()) -> Any:  # noqa: ASYNC109
            self.require_open()
            seconds = self._choose_timeout(timeout)
            span, began = self._telemetry.begin(), time.monotonic()
            code = "OK"
            try:
                response = await inner(
                    request, timeout=seconds, metadata=_build_metadata(span, (*self._own_metadata, *metadata))
                )
                self._telemetry.describe(span, request, response)
                return response
            except grpc.aio.AioRpcError as failure:
                code = failure.code().name
                raise status.decode(failure, self._peer) from failure
            except BaseException as failure:
                code = _get_code_name(failure)
                raise
            finally:
                self._telemetry.end(span, code, time.monotonic() - began)

        return call

    def stream(self, inner: Any) -> Any:
        """Return an async generator function that calls `inner`; leaving it early cancels the call."""

        async def responses(
            request: Any,
            *,
            timeout: float | None = None,  # noqa: ASYNC109
            metadata: Metadata = (),
        ) -> AsyncIterator[Any]:
            self.require_open()
            seconds = self._choose_timeout(timeout)
            span, began = self._telemetry.begin(), time.monotonic()
            code = "OK"
            call = inner(request, timeout=seconds, metadata=_build_metadata(span, (*self._own_metadata, *metadata)))
            try:
                async for response in call:
                    yield response
            except grpc.aio.AioRpcError as failure:
                code = failure.code().name
                raise status.decode(failure, self._peer) from failure
            except BaseException as failure:
                code = _get_code_name(failure)
                raise
            finally:
                call.cancel()
                self._telemetry.end(span, code, time.monotonic() - began)

        return responses

    def require_open(self) -> None:
        """Raise ClientClosed if the connection is closed: gRPC may end the process at the use of a closed one."""
        if self._connection.is_closed:
            raise ClientClosed(self._peer)

    def _choose_timeout(self, timeout: float | None) -> float | None:
        """Return the seconds for a call: the policy's, or fewer if the caller has fewer.

        A method that works with a model gets longer if the caller asks for longer, up to the policy's limit. On behalf
        of a call that this process serves it gets a share of that call's time, since other calls need some of it.
        """
        policy, longest = self._policy.timeout_seconds, self._policy.longest_seconds
        if longest is not None and policy is not None:
            remaining = deadlines.get_remaining()
            wanted = timeout if timeout is not None else SHARE_OF_SERVED_CALL * (remaining or 0.0)
            policy = min(longest, max(policy, wanted))
        limits = [seconds for seconds in (policy, timeout) if seconds is not None]
        return deadlines.compute_budget(min(limits, default=None))


def _build_metadata(span: Span, extra: Metadata) -> tuple[tuple[str, str], ...]:
    return ((CORRELATION_ID_KEY, get_correlation_id()), *telemetry.build_metadata(span), *extra)


def _get_code_name(failure: BaseException) -> str:
    return "CANCELLED" if isinstance(failure, asyncio.CancelledError | GeneratorExit) else "UNKNOWN"
