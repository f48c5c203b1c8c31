"""The registry of report kinds, built in and registered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from libs.storage.idempotency import IdempotencyKey
from services.validator.domain.errors import KindExists, KindNotFound, ReportTypeUnknown
from services.validator.domain.kind_definition import KindDefinition
from services.validator.domain.kinds import BUILT_IN_KINDS, ReportKind
from services.validator.usecases.ports import KindStore, RegisteredKind

MAX_COMPILED_KINDS = 200
LISTED_NAMES = 20


class Kinds:
    """The built-in kinds and the registered ones.

    `compiled` raises KindInvalid. A definition is read for every use, because another process may have changed it,
    but compiled only once.
    """

    def __init__(self, definitions: KindStore, compiled: Callable[[KindDefinition], ReportKind]) -> None:
        self.definitions = definitions
        self._compile = compiled
        self._compiled: dict[KindDefinition, ReportKind] = {}

    async def get_kind(self, name: str) -> ReportKind:
        """Return the kind of this name. Raises ReportTypeUnknown."""
        if name in BUILT_IN_KINDS:
            return BUILT_IN_KINDS[name]
        try:
            registered = await self.definitions.get(name)
        except KindNotFound:
            others = await self.definitions.page("", LISTED_NAMES)
            raise ReportTypeUnknown(name, [other.definition.name for other in others]) from None
        return await self._get_usable(registered.definition)

    async def register(self, request: IdempotencyKey, definition: KindDefinition) -> RegisteredKind:
        """Store a definition that compiles. Raises KindInvalid, KindExists, RequestIdReused."""
        if definition.name in BUILT_IN_KINDS:
            raise KindExists(definition.name)
        await self._get_usable(definition)
        return await self.definitions.add(request, definition)

    async def _get_usable(self, definition: KindDefinition) -> ReportKind:
        if definition not in self._compiled:
            kind = await asyncio.to_thread(self._compile, definition)
            if len(self._compiled) >= MAX_COMPILED_KINDS:
                self._compiled.pop(next(iter(self._compiled)))
            self._compiled[definition] = kind
        return self._compiled[definition]
