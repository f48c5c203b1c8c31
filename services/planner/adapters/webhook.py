"""Send the questions of executions to a URL, signed as the specification "Standard Webhooks" describes it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import httpx

from chassis.retry import RetryPolicy
from chassis.settings import BadSetting
from chassis.tls import is_loopback
from services.planner.domain.plans import utc_now

SETTING_URL = "HANSEI_PLANNER_WEBHOOK_URL"
SETTING_SECRET = "HANSEI_PLANNER_WEBHOOK_SECRET"  # noqa: S105 - the name of a setting
ATTEMPT_SECONDS = 10.0

_SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix of encoded secrets
_LEAST_SECRET_CHARS = 24
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


class Webhook:
    """Posts messages to one URL."""

    def __init__(
        self, url: str, secret: str, *, retries: RetryPolicy = _RETRIES, clock: Callable[[], datetime] = utc_now
    ) -> None:
        """Raise BadSetting for a URL over which messages could be read, and for a secret that can be guessed."""
        self._url = _parse_url(url)
        self._key = _decode_secret(secret)
        self._retries = retries
        self._clock = clock
        self._client = httpx.AsyncClient(timeout=ATTEMPT_SECONDS)

    async def send(self, message_id: str, message: Mapping[str, Any]) -> None:
        """Post a message, with retries. `message_id` is the same for each attempt, so that the receiver sees repeats.

        Raises WebhookRefused, httpx.HTTPError.
        """
        body = json.dumps(message, ensure_ascii=False).encode()
        await self._retries.run(lambda: self._post(message_id, body), _is_transient)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _post(self, message_id: str, body: bytes) -> None:
        seconds = str(int(self._clock().timestamp()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "hansei",
            "webhook-id": message_id,
            "webhook-timestamp": seconds,
            "webhook-signature": sign(self._key, message_id, seconds, body),
        }
        async with self._client.stream("POST", self._url, content=body, headers=headers) as response:
            if not response.is_success:
                raise WebhookRefused(response.status_code)


def sign(key: bytes, message_id: str, seconds: str, body: bytes) -> str:
    """Return the signature of a message: HMAC-SHA256 over its id, its time and its body."""
    digest = hmac.new(key, b".".join((message_id.encode(), seconds.encode(), body)), hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


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


def _decode_secret(secret: str) -> bytes:
    if len(secret) < _LEAST_SECRET_CHARS:
        raise BadSetting(f"{SETTING_SECRET} must have at least {_LEAST_SECRET_CHARS} characters: {SETTING_URL} is set")
    if not secret.startswith(_SECRET_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_SECRET_PREFIX), validate=True)
    except binascii.Error as error:
        raise BadSetting(f"{SETTING_SECRET}: the text after {_SECRET_PREFIX} must be base64") from error
