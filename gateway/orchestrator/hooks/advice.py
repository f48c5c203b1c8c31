"""The text that a hook adds to the context of a model: the bullets that its session does not have yet."""

from __future__ import annotations

from collections.abc import Iterator

from cachetools import TTLCache

from chassis.quotations import build_notice, mark_quotations
from gateway.orchestrator.hooks.events import HookEvent
from hansei.evidence.v1 import evidence_service_pb2 as evidence
from hansei.playbook.v1.playbook_pb2 import Bullet

MAX_CHARS = 8_000
"""Agents truncate a text of more than about 10,000 characters, or write it into a file."""
_MAX_SESSIONS = 10_000
_SESSION_SECONDS = 6 * 3600


class SessionAdvice:
    """Builds the texts of sessions. Remembers the bullets of each session, because agents keep added texts."""

    def __init__(self) -> None:
        self._served: TTLCache[tuple[str, str], set[str]] = TTLCache(_MAX_SESSIONS, _SESSION_SECONDS)

    def build_text(self, dataset: str, event: HookEvent, response: evidence.RecallResponse) -> str:
        """Return the lines for the bullets that are new to the session; empty if there is none."""
        session = (dataset, event.session_id)
        served = set() if event.forgets_context else self._served.get(session, set())
        bullets = [result.bullet for result in response.results if result.bullet.id not in served]
        lines = dict(_format_bullets(bullets))
        if not lines:
            return ""
        self._served[session] = served | lines.keys()
        intro = (
            f"Lessons from earlier sessions (playbook {dataset}, revision {response.revision}). "
            "Follow those that fit the task:"
        )
        text = "\n".join(lines.values())
        return "\n".join(part for part in (intro, build_notice(text), text) if part)


def _format_bullets(bullets: list[Bullet]) -> Iterator[tuple[str, str]]:
    """Yield id and line of the bullets that fit, the best ones first."""
    size = 0
    for bullet in bullets:
        line = f"- [{bullet.id}] {mark_quotations(' '.join(bullet.content.split()))}"
        size += len(line) + 1
        if size > MAX_CHARS:
            return
        yield bullet.id, line
