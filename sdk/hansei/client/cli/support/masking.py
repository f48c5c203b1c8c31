"""Takes what is secret out of everything that goes into a bundle."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from chassis.logging import REDACTED, is_secret, without_secrets

SHORTEST = 6
"""Characters of a secret that is looked for by its value; a shorter one could be any word: its name must tell."""
_URL_PASSWORD = re.compile(r"://[^\s:/@]*:(\S+)@")
_VALUE = re.compile(r"=([^,;\s]+)")


class Masking:
    """What the logs mask, by name and by looks, and besides every secret that this environment holds, by its value."""

    def __init__(self, environment: Mapping[str, str], secret_variables: Collection[str]) -> None:
        """`secret_variables`: those that are secret whatever their names."""
        known = {
            form
            for name, value in environment.items()
            for secret in _secrets(name, value, secret_variables)
            for form in (secret, unquote(secret))
            if len(form) >= SHORTEST
        }
        # The longest first: one may be a part of another.
        self._known = sorted(known, key=len, reverse=True)
        self._secret_variables = frozenset(secret_variables)

    def __call__(self, value: Any, key: str = "") -> Any:
        """A text or a document without what is secret in it."""
        if isinstance(value, Mapping):
            return {self(str(k)): self(v, str(k)) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self(each) for each in value]
        if not isinstance(value, str):
            return REDACTED if value and is_secret(key) else value
        if value and key in self._secret_variables:
            return REDACTED
        for secret in self._known:
            value = value.replace(secret, REDACTED)
        return without_secrets(value, key)


def _secrets(name: str, value: str, secret_variables: Collection[str]) -> Iterator[str]:
    """The secrets in a variable: all of it, the passwords of URLs, the values of headers for OpenTelemetry."""
    if name in secret_variables or is_secret(name):
        yield value.strip()
    yield from _URL_PASSWORD.findall(value)
    if name.endswith("_HEADERS"):
        yield from _VALUE.findall(value)
