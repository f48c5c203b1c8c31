"""Puts data of others between tags that the data cannot imitate."""

from __future__ import annotations

import hashlib
import secrets

PROCESS_KEY = secrets.token_bytes(16)


def fence(tag: str, text: str, key: bytes = PROCESS_KEY) -> str:
    """Return `text` between `<tag-code>` and `</tag-code>`.

    The code depends on the text and on a secret key, so the text cannot contain its own end. Equal texts have equal
    codes within a process, so that a provider's cache recognises the beginning of a prompt.
    """
    content = text.encode("utf-8", "surrogatepass")
    code = hashlib.blake2b(content, key=key, digest_size=4).hexdigest()
    return f"<{tag}-{code}>\n{text}\n</{tag}-{code}>"
