"""The webhooks of an execution, which callers create, list and delete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from services.planner.domain.plans import utc_now
from services.planner.domain.webhooks import ExecutionWebhook
from services.planner.usecases.ports import ExecutionStore


class UrlCheck(Protocol):
    """Checks the URLs of callers."""

    async def check(self, url: str) -> None:
        """Raise InvalidWebhookUrl if nothing may be sent to a URL."""


class ExecutionWebhooks:
    """Creates, lists and deletes webhooks."""

    def __init__(self, store: ExecutionStore, urls: UrlCheck, clock: Callable[[], datetime] = utc_now) -> None:
        self._store = store
        self._urls = urls
        self._clock = clock

    async def create(self, webhook: ExecutionWebhook, *, validate_only: bool = False) -> ExecutionWebhook:
        """Store a webhook, with the id of its execution if it has none; `validate_only`: check its URL only.

        Raises ExecutionNotFound, InvalidWebhookUrl, TooManyWebhooks.
        """
        await self._urls.check(webhook.url)
        webhook = replace(webhook, webhook_id=webhook.webhook_id or webhook.execution_id)
        if not validate_only:
            await self._store.put_webhook(webhook, self._clock())
        return webhook

    async def list(self, execution_id: str) -> Sequence[ExecutionWebhook]:
        """Return the webhooks of an execution. Raises ExecutionNotFound."""
        return await self._store.list_webhooks(execution_id)

    async def delete(self, execution_id: str, webhook_id: str) -> bool:
        """Delete a webhook; return whether there was one. Raises ExecutionNotFound."""
        return await self._store.delete_webhook(execution_id, webhook_id)
