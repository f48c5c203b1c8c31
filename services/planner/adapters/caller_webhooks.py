"""Send the changes of executions to URLs that callers name.

A caller must not make the planner call services of its own network. So the host of a URL has public addresses only, of
which one is connected to as it was checked, or the operator has named it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from chassis.retry import RetryPolicy
from services.planner.adapters.signatures import decode_secret
from services.planner.domain.errors import InvalidWebhookUrl
from services.planner.domain.webhooks import ExecutionWebhook

if TYPE_CHECKING:
    from services.planner.adapters.webhook import Poster

_PORTS = {"http": 80, "https": 443}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""Addresses of hosts with IPv4 only, as networks with IPv6 only see them."""
_ONCE = RetryPolicy(attempts=1)
"""The notifier repeats messages, so that a receiver that does not respond delays no other."""
_TOKEN_HEADER = "X-A2A-Notification-Token"  # noqa: S105 - the name of a header


class CallerWebhooks:
    """Sends messages to URLs of callers."""

    def __init__(self, named_hosts: Collection[str], secret: str) -> None:
        """`named_hosts`: hosts, as `host` or `host:port`, that need no public address and no TLS.

        Messages are signed if there is a secret. Raise BadSetting for one that can be guessed.
        """
        self._named_hosts = {host.lower() for host in named_hosts}
        self._key = decode_secret(secret) if secret else b""
        self._opened_poster: Poster | None = None

    async def check(self, url: str) -> None:
        """Raise InvalidWebhookUrl if nothing may be sent to a URL now."""
        await self._find_address(url, _split(url))

    async def send(self, webhook: ExecutionWebhook, message_id: str, message: Mapping[str, Any]) -> None:
        """Send a message. Raises InvalidWebhookUrl, WebhookRefused, httpx.HTTPError."""
        # httpx takes long to import, so import it only where it is used.
        import httpx

        parts = _split(webhook.url)
        address = await self._find_address(webhook.url, parts)
        headers = {"Authorization": webhook.authorization, _TOKEN_HEADER: webhook.token, "Host": parts.netloc}
        url, server_name = httpx.URL(webhook.url), ""
        if address:
            url, server_name = url.copy_with(host=address), parts.hostname or ""
        set_headers = {name: value for name, value in headers.items() if value}
        await self._open_poster().post(url, message_id, message, headers=set_headers, server_name=server_name)

    async def close(self) -> None:
        """Close the connections."""
        if self._opened_poster is not None:
            await self._opened_poster.close()

    def _open_poster(self) -> Poster:
        from services.planner.adapters.webhook import Poster

        if self._opened_poster is None:
            self._opened_poster = Poster(self._key, retries=_ONCE)
        return self._opened_poster

    async def _find_address(self, url: str, parts: SplitResult) -> str:
        """Return a public address of the host; empty if the operator has named the host."""
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        if not self._named_hosts.isdisjoint((host, f"{host}:{port}")):
            return ""
        if parts.scheme != "https":
            raise InvalidWebhookUrl(url, "must begin with https://")
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise InvalidWebhookUrl(url, "must have a host whose name can be resolved") from error
        addresses = [str(entry[4][0]) for entry in found]
        private = [address for address in addresses if not _is_public(address)]
        if private:
            rule = f"must have a host with public addresses only, not {private[0]}; an operator can allow the host"
            raise InvalidWebhookUrl(url, f"{rule} with HANSEI_PLANNER_WEBHOOK_HOSTS")
        return addresses[0]


def _split(url: str) -> SplitResult:
    """Return the parts of a URL of http or https with a host. Raises InvalidWebhookUrl."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in _PORTS and bool(parts.hostname) and parts.port != 0 and url.isprintable()
    except ValueError as error:
        raise InvalidWebhookUrl(url, f"is not a URL: {error}") from error
    if not is_valid or " " in url:
        raise InvalidWebhookUrl(url, "must be a URL of https with a host")
    if parts.username is not None or parts.password is not None:
        raise InvalidWebhookUrl("https://…", "must not contain a user or a password: set `authorization`")
    return parts


def _is_public(address: str) -> bool:
    """Return whether the public internet has the address, or the IPv4 address that it stands for."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        translated = ipaddress.IPv4Address(found.packed[-4:]) if found in _NAT64 else None
        found = translated or found.ipv4_mapped or found.sixtofour or found
    is_special = found.is_multicast or found.is_reserved or getattr(found, "is_site_local", False)
    return found.is_global and not is_special
