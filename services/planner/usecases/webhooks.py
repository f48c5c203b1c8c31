"""Create the webhooks of an execution."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Protocol

from services.planner.domain.webhooks import ExecutionWebhook
from services.planner.usecases.ports import ExecutionStore


class UrlCheck(Protocol):
    """Checks the URLs of callers."""

    async def check(self, url: str) -> None:
        """Raise InvalidWebhookUrl if nothing may be sent to a URL."""


async def create_webhook(
    store: ExecutionStore, urls: UrlCheck, webhook: ExecutionWebhook, now: datetime, *, validate_only: bool = False
) -> ExecutionWebhook:
    """Store a webhook, with the id of its execution if it has none; `validate_only`: check its URL only.

    Raises ExecutionNotFound, InvalidWebhookUrl, TooManyWebhooks.
    """
    await urls.check(webhook.url)
    webhook = replace(webhook, webhook_id=webhook.webhook_id or webhook.execution_id)
    if not validate_only:
        await store.put_webhook(webhook, now)
    return webhook
