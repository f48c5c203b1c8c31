"""Signatures of messages, as the specification "Standard Webhooks" describes them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

from chassis.settings import BadSetting

SETTING_SECRET = "HANSEI_PLANNER_WEBHOOK_SECRET"  # noqa: S105 - the name of a setting

_SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix of encoded secrets
_LEAST_SECRET_CHARS = 24


def sign(key: bytes, message_id: str, seconds: str, body: bytes) -> str:
    """Return the signature of a message: HMAC-SHA256 over its id, its time and its body."""
    digest = hmac.new(key, b".".join((message_id.encode(), seconds.encode(), body)), hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def decode_secret(secret: str) -> bytes:
    """Return the key of the signatures. Raise BadSetting for a secret that can be guessed."""
    if len(secret) < _LEAST_SECRET_CHARS:
        raise BadSetting(f"{SETTING_SECRET} must have at least {_LEAST_SECRET_CHARS} characters")
    if not secret.startswith(_SECRET_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_SECRET_PREFIX), validate=True)
    except binascii.Error as error:
        raise BadSetting(f"{SETTING_SECRET}: the text after {_SECRET_PREFIX} must be base64") from error
