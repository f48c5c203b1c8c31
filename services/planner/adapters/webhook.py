"""Send the questions of executions to a URL, signed as the specification "Standard Webhooks" describes it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx

from chassis.retry import RetryPolicy
from chassis.settings import BadSetting
from chassis.tls import is_loopback
from services.planner.adapters.signatures import decode_secret, sign
from services.planner.domain.plans import utc_now

SETTING_URL = "HANSEI_PLANNER_WEBHOOK_URL"
ATTEMPT_SECONDS = 10.0

_RETRIES = RetryPolicy(attempts=4, first_pause=1.0, longest_pause=15.0)
_TOO_MANY = httpx.codes.TOO_MANY_REQUESTS


class WebhookRefused(Exception):
    """The receiver responded with a status other than 2xx."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the receiver responded with status {status}")
        self.is_transient = status >= httpx.codes.INTERNAL_SERVER_ERROR or status in (
            httpx.codes.REQUEST_TIMEOUT,
            _TOO_MANY,
        )


class Poster:
    """Posts messages as JSON, signed if there is a key."""

    def __init__(
        self, key: bytes, *, retries: RetryPolicy = _RETRIES, attempt_seconds: float = ATTEMPT_SECONDS
    ) -> None:
        self._key = key
        self._retries = retries
        self._attempt_seconds = attempt_seconds
        self._client = httpx.AsyncClient(timeout=attempt_seconds)

    async def post(
        self,
        url: httpx.URL,
        message_id: str,
        message: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        server_name: str = "",
    ) -> None:
        """Post a message, with retries. `message_id` is the same for each attempt, so that the receiver sees repeats.

        `server_name`: the name that the certificate of the receiver must have, if `url` has an IP address instead.
        Raises WebhookRefused, httpx.HTTPError.
        """
        body = json.dumps(message, ensure_ascii=False).encode()
        extensions = {"sni_hostname": server_name} if server_name else {}
        await self._retries.run(
            lambda: self._post_once(url, message_id, body, headers or {}, extensions), _is_transient
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _post_once(
        self, url: httpx.URL, message_id: str, body: bytes, more: Mapping[str, str], extensions: dict[str, str]
    ) -> None:
        seconds = str(int(utc_now().timestamp()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "hansei",
            "webhook-id": message_id,
            "webhook-timestamp": seconds,
            **more,
        }
        if self._key:
            headers["webhook-signature"] = sign(self._key, message_id, seconds, body)
        request = self._client.build_request("POST", url, content=body, headers=headers, extensions=extensions)
        try:
            # The limits of the client are those of single reads: a receiver that sends byte after byte keeps them.
            async with asyncio.timeout(self._attempt_seconds):
                response = await self._client.send(request, stream=True)
                await response.aclose()
        except TimeoutError:
            raise httpx.ReadTimeout(f"no response within {self._attempt_seconds:g} seconds", request=request) from None
        if not response.is_success:
            raise WebhookRefused(response.status_code)


class Webhook:
    """Posts messages to one URL."""

    def __init__(self, url: str, secret: str) -> None:
        """Raise BadSetting for a URL over which messages could be read, and for a secret that can be guessed."""
        self._url = _parse_url(url)
        self._poster = Poster(decode_secret(secret))

    async def send(self, message_id: str, message: Mapping[str, Any]) -> None:
        """Post a message, with retries. Raises WebhookRefused, httpx.HTTPError."""
        await self._poster.post(self._url, message_id, message)

    async def close(self) -> None:
        """Close the connections."""
        await self._poster.close()


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, httpx.TransportError) or (isinstance(error, WebhookRefused) and error.is_transient)


def _parse_url(text: str) -> httpx.URL:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise BadSetting(f"{SETTING_URL}: {text!r} is not a URL: {error}") from error
    is_local = url.scheme == "http" and is_loopback(f"{url.host}:{url.port or 80}")
    if not url.host or not (url.scheme == "https" or is_local):
        raise BadSetting(f"{SETTING_URL}: {text!r} must be an https URL, or an http URL of this host")
    return url
