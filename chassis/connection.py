"""A connection to an address, which follows the renewal of certificates."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import grpc

if TYPE_CHECKING:
    from chassis.tls import Bundle, Certificates

_RENEWAL_GRACE_SECONDS = 60.0


class Connection:
    """A gRPC channel that is replaced when the certificate is renewed."""

    def __init__(
        self, dial: Callable[[Bundle | None], grpc.aio.Channel], certificates: Certificates | None = None
    ) -> None:
        self._dial = dial
        self._certificates = certificates
        self._bundle = certificates.get_current() if certificates else None
        self._delayed_closes: set[asyncio.Task[None]] = set()
        self.channel = dial(self._bundle)
        self.is_closed = False
        """True from the start of `close` on: gRPC refuses new calls from then on."""

    def get_channel(self) -> grpc.aio.Channel:
        """Return the channel for new calls. Calls in progress on a replaced channel get a minute."""
        if self._certificates is not None and (bundle := self._certificates.get_current()) is not self._bundle:
            closing = asyncio.ensure_future(self.channel.close(_RENEWAL_GRACE_SECONDS))
            self._delayed_closes.add(closing)
            closing.add_done_callback(self._delayed_closes.discard)
            self._bundle, self.channel = bundle, self._dial(bundle)
        return self.channel

    async def retire(self) -> None:
        """Close the channel after its calls in progress, which get a minute."""
        await self.close(_RENEWAL_GRACE_SECONDS)

    async def close(self, grace: float | None) -> None:
        """Close the channel; calls in progress get `grace` seconds."""
        self.is_closed = True
        for closing in list(self._delayed_closes):
            closing.cancel()
        await self.channel.close(grace)
