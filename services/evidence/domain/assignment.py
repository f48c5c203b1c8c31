"""Random assignment without state: a keyed hash of the session and the treatment.

The same session gets the same assignment on every replica and after every restart. Nobody who lacks the key can foresee
or choose an assignment by the choice of a session id.
"""

from __future__ import annotations

from hashlib import blake2b

KEY_BYTES = 32
SERVING_ID_BYTES = 12


def draw(key: bytes, session_id: str, treatment: str) -> float:
    """Return the number in [0, 1) of a session and a treatment, uniform and independent over both."""
    digest = blake2b(_frame(session_id, treatment), key=key, digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def make_serving_id(key: bytes, session_id: str) -> str:
    """Return the id of the serving of a session."""
    return blake2b(_frame(session_id, ""), key=key, digest_size=SERVING_ID_BYTES, person=b"serving").hexdigest()


def _frame(session_id: str, treatment: str) -> bytes:
    session = session_id.encode("utf-8", "surrogatepass")
    return len(session).to_bytes(4, "big") + session + treatment.encode("utf-8", "surrogatepass")
