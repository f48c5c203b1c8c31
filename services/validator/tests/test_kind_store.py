"""Registered kinds, on a real SQLite file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from chassis.errors import RequestIdReused, Violation
from libs.storage.idempotency import IdempotencyKey
from services.validator.adapters.rules.kind_compiler import compile_kind
from services.validator.adapters.sql.queries import decode_definition, encode_definition
from services.validator.adapters.sql.repository import SqlKindStore, ValidatorDatabase
from services.validator.domain.errors import KindExists, KindInvalid, KindNotFound, ReportTypeUnknown
from services.validator.domain.kind_definition import Expression, KindDefinition, Rule, RuleLimits
from services.validator.domain.kinds import ORGANIZER, ReportKind
from services.validator.domain.wording import LITERAL
from services.validator.tests.risk_review import DEFINITION, GOOD
from services.validator.usecases.kinds import Kinds


def request(text: str = "") -> IdempotencyKey:
    return IdempotencyKey(text or str(uuid4()), "Test", b"same")


class Compiler:
    """Compiles and counts."""

    def __init__(self) -> None:
        self.compiled: list[str] = []

    def __call__(self, definition: KindDefinition) -> ReportKind:
        self.compiled.append(definition.name)
        return compile_kind(definition, RuleLimits(seconds=30))


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[ValidatorDatabase]:
    database = ValidatorDatabase(str(tmp_path / "validator.db"))
    await database.open()
    yield database
    await database.close()


@pytest.fixture
def kinds(database: ValidatorDatabase) -> Kinds:
    return Kinds(SqlKindStore(database), Compiler())


def test_definitions_survive_as_text() -> None:
    assert decode_definition(encode_definition(DEFINITION)) == DEFINITION


async def test_a_registered_kind_checks_reports(kinds: Kinds) -> None:
    registered = await kinds.register(request(), DEFINITION)
    assert registered.definition == DEFINITION
    kind = await kinds.get_kind("risk-review")
    assert kind.validate(GOOD, ["n1"], LITERAL).ok
    assert await kinds.get_kind("organizer") is ORGANIZER


async def test_a_kind_is_compiled_once(database: ValidatorDatabase) -> None:
    compiler = Compiler()
    kinds = Kinds(SqlKindStore(database), compiler)
    await kinds.register(request(), DEFINITION)
    for _ in range(3):
        await kinds.get_kind("risk-review")
    assert compiler.compiled == ["risk-review"]


async def test_names_are_taken_once(kinds: Kinds) -> None:
    await kinds.register(request("a"), DEFINITION)
    await kinds.register(request("a"), DEFINITION)  # a repeated request changes nothing
    with pytest.raises(KindExists):
        await kinds.register(request(), DEFINITION)
    with pytest.raises(KindExists):
        await kinds.register(request(), KindDefinition("organizer"))
    with pytest.raises(RequestIdReused):
        await kinds.definitions.add(IdempotencyKey("a", "Test", b"other"), KindDefinition("other"))


async def test_a_kind_that_does_not_compile_is_not_stored(kinds: Kinds) -> None:
    with pytest.raises(KindInvalid):
        await kinds.register(request(), KindDefinition("bad", rules=(Rule("A", Expression("1 +")),)))
    assert await kinds.definitions.page("", 10) == []


async def test_an_unknown_type_names_those_that_exist(kinds: Kinds) -> None:  # G-28
    with pytest.raises(ReportTypeUnknown) as raised:
        await kinds.get_kind("x")
    assert str(raised.value) == "type must be 'organizer' or 'advisor'"
    await kinds.register(request(), DEFINITION)
    with pytest.raises(ReportTypeUnknown) as raised:
        await kinds.get_kind("x")
    rule = "type must be 'organizer' or 'advisor' or 'risk-review'"
    assert str(raised.value) == rule
    assert raised.value.violations == (Violation("type", f"{rule} (got 'x')"),)


async def test_removed_kinds_are_gone(kinds: Kinds) -> None:
    await kinds.register(request(), DEFINITION)
    await kinds.definitions.remove(request(), "risk-review")
    for name in ("risk-review", "never"):
        with pytest.raises(KindNotFound):
            await kinds.definitions.get(name)
        with pytest.raises(KindNotFound):
            await kinds.definitions.remove(request(), name)


async def test_kinds_are_listed_by_name(kinds: Kinds) -> None:
    for name in ("b", "c", "a"):
        await kinds.register(request(), KindDefinition(name))
    pages = [await kinds.definitions.page(after, 2) for after in ("", "b")]
    assert [[item.definition.name for item in page] for page in pages] == [["a", "b"], ["c"]]
