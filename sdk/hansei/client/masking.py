"""Remove secrets from everything that leaves the machine: support bundles, and the data of hooks."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping

from chassis.secrets import REDACTED, is_secret, mark_option_values, remove_secrets

TYPE_CHECKING = False  # As in typing, whose import takes longer than a hook of an agent may take.
if TYPE_CHECKING:
    from typing import Any

MIN_SECRET_CHARS = 6
"""The length from which a secret is found by its value; a shorter one could be any word, and is found by its name."""
_URL_USER = re.compile(r"://[^\s:/@]*:")
_HEADER_VALUE = re.compile(r"=([^,;\s]+)")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class SecretMask:
    """Mask everything that the logs mask, and every secret value in this environment."""

    def __init__(self, environment: Mapping[str, str], secret_variables: Collection[str]) -> None:
        """Collect the secrets of the environment: `secret_variables`, and variables with names of secrets."""
        values = {
            form
            for name, value in environment.items()
            for secret in _find_secrets(name, value, secret_variables)
            for form in (secret, _unquote(secret))
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
            return [REDACTED if is_hidden else self(member) for member, is_hidden in mark_option_values(value)]
        if not isinstance(value, str):
            return REDACTED if value and is_secret(key) else value
        if value and key in self._secret_variables:
            return REDACTED
        for secret in self._values:
            value = value.replace(secret, REDACTED)
        return remove_secrets(value, key)


def _unquote(secret: str) -> str:
    """Return a secret without the escapes of a URL."""
    if "%" not in secret:
        return secret
    from urllib.parse import unquote

    return unquote(secret)


def _find_secrets(name: str, value: str, secret_variables: Collection[str]) -> Iterator[str]:
    """Yield the secrets in a variable: all of it, passwords in URLs, header values for OpenTelemetry."""
    if name in secret_variables or is_secret(name):
        yield value.strip()
    yield from _find_url_passwords(value)
    if name.endswith("_HEADERS"):
        yield from _HEADER_VALUE.findall(value)


def _find_url_passwords(value: str) -> Iterator[str]:
    """Yield the password of the first URL in each word, which lasts until the last `@`: it may contain others.

    One pattern for both ends would take a time that grows with the square of the length.
    """
    for word in value.split():
        end = word.rfind("@")
        user = _URL_USER.search(word, 0, max(end, 0))
        if user is not None and user.end() < end:
            yield word[user.end() : end]


def mask_content(mask: SecretMask, content: bytes) -> bytes:
    """Return a trajectory file without secrets: a JSON document, or JSON lines; other lines are masked as text.

    Lines without a secret stay as they are, so that a text without a secret keeps its content, and its idempotency key.
    """
    text = content.decode("utf-8", "surrogateescape")
    whole = _mask_document(mask, text)
    if whole is None:
        # str.splitlines would also split at U+2028 and others, which a text in JSON may contain.
        whole = "".join(_mask_document(mask, line) or mask(line) for line in _LINE.findall(text))
    return whole.encode("utf-8", "surrogateescape")


def _mask_document(mask: SecretMask, text: str) -> str | None:
    """Return the text of a JSON document without secrets; None if it is no JSON."""
    try:
        document = json.loads(text)
        masked = mask(document)
    except (ValueError, RecursionError):
        return None
    if masked == document:
        return text
    from chassis.json_texts import repair_surrogates  # a hook, which masks no files, starts faster without

    return repair_surrogates(json.dumps(masked, ensure_ascii=False)) + text[len(text.rstrip("\r\n")) :]
