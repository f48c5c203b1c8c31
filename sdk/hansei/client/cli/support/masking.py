"""Remove secrets from everything that goes into a support bundle."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from chassis.logging import REDACTED, is_secret, remove_secrets

MIN_SECRET_CHARS = 6
"""The length from which a secret is found by its value; a shorter one could be any word, and is found by its name."""
_URL_PASSWORD = re.compile(r"://[^\s:/@]*:(\S+)@")
_HEADER_VALUE = re.compile(r"=([^,;\s]+)")


class SecretMask:
    """Mask everything that the logs mask, and every secret value in this environment."""

    def __init__(self, environment: Mapping[str, str], secret_variables: Collection[str]) -> None:
        """Collect the secrets of the environment; `secret_variables` are secret whatever their names are."""
        values = {
            form
            for name, value in environment.items()
            for secret in _find_secrets(name, value, secret_variables)
            for form in (secret, unquote(secret))
            if len(form) >= MIN_SECRET_CHARS
        }
        # The longest first: a secret may contain another.
        self._values = sorted(values, key=len, reverse=True)
        self._secret_variables = frozenset(secret_variables)

    def __call__(self, value: Any, key: str = "") -> Any:
        """Return a text or a document without secrets."""
        if isinstance(value, Mapping):
            return {self(str(name)): self(member, str(name)) for name, member in value.items()}
        if isinstance(value, list | tuple):
            return [self(member) for member in value]
        if not isinstance(value, str):
            return REDACTED if value and is_secret(key) else value
        if value and key in self._secret_variables:
            return REDACTED
        for secret in self._values:
            value = value.replace(secret, REDACTED)
        return remove_secrets(value, key)


def _find_secrets(name: str, value: str, secret_variables: Collection[str]) -> Iterator[str]:
    """Yield the secrets in a variable: all of it, passwords in URLs, header values for OpenTelemetry."""
    if name in secret_variables or is_secret(name):
        yield value.strip()
    yield from _URL_PASSWORD.findall(value)
    if name.endswith("_HEADERS"):
        yield from _HEADER_VALUE.findall(value)
