"""Playbooks as files over gRPC: an export equals its import."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chassis.errors import HanseiError
from hansei.playbook.v1 import playbook_service_pb2 as service_pb
from services.curator.domain.errors import UnreadablePlaybook
from services.curator.usecases.transfer import PART_BULLETS
from tests.support.playbook_client import (
    add,
    apply,
    contents,
    curator,
    export_file,
    import_file,
    playbook,
    vote,
)

if TYPE_CHECKING:
    from hansei.playbook.v1.playbook_service_pb2_grpc import PlaybookServiceAsyncStub as Stub


DATA = Path(os.environ.get("HANSEI_DATA", Path(__file__).parents[3] / "../shared/data"))


@pytest.fixture
async def stub(tmp_path: Path) -> AsyncIterator[Stub]:
    async with curator(tmp_path) as stub:
        yield stub


async def test_a_json_file_is_exported_as_it_was_imported(stub: Stub) -> None:  # C-17, C-19
    await apply(stub, add("日本語の教訓 {a}\n二行目"), add("two"), trajectory="run")
    await apply(stub, votes=[vote("gene-00001", "x")])
    exported = await export_file(stub, service_pb.PLAYBOOK_FORMAT_JSON)
    assert "日本語の教訓" in exported.decode()
    answer = await import_file(stub, exported, dataset="copy")
    assert (answer.added, answer.format) == (2, service_pb.PLAYBOOK_FORMAT_JSON)
    copied = await export_file(stub, service_pb.PLAYBOOK_FORMAT_JSON, "copy")
    assert copied.split(b'"bullets"')[1] == exported.split(b'"bullets"')[1]


async def test_a_playbook_lies_in_the_data_directory_which_is_made(tmp_path: Path) -> None:  # C-12, C-16, C-26
    folder = tmp_path / "not" / "there"
    async with curator(folder) as stub:
        await apply(stub, add("one"))
        first = await playbook(stub)
        await apply(stub, add("two"))
        second = await playbook(stub)
        datasets = (await stub.ListDatasets(service_pb.ListDatasetsRequest())).datasets
    assert (folder / "playbooks.db").exists()
    assert first.created_at == second.created_at
    assert first.updated_at.ToNanoseconds() < second.updated_at.ToNanoseconds()
    assert [dataset.name for dataset in datasets] == ["d"]  # and no history


async def test_an_import_saves_the_whole_playbook_and_two_do_not_mix(stub: Stub) -> None:  # C-75
    await apply(stub, add("gone"))
    files = [
        b"".join(b"[%s-%05d] helpful=0 harmful=0 :: lesson %d\n" % (name, number, number) for number in range(1, 40))
        for name in (b"aaa", b"bbb")
    ]
    answers = await asyncio.gather(*(import_file(stub, content) for content in files))
    last = max(answers, key=lambda answer: answer.revision)
    saved = [bullet.id for bullet in (await playbook(stub)).bullets]
    winner = "aaa" if last is answers[0] else "bbb"
    assert saved == [f"{winner}-{number:05d}" for number in range(1, 40)]
    assert last.removed == 39


async def test_a_text_file_with_the_line_ends_of_windows_is_read_as_it_was_exported(stub: Stub) -> None:
    await apply(stub, add("Pull before a push.\nAlways."))
    exported = await export_file(stub, service_pb.PLAYBOOK_FORMAT_TEXT_COUNTED)
    before = (await playbook(stub)).bullets
    answer = await import_file(stub, exported.replace(b"\n", b"\r\n"), replace=False)
    assert (answer.added, answer.updated, answer.removed) == (0, 0, 0)
    assert list((await playbook(stub)).bullets) == list(before)


async def test_a_file_with_an_error_writes_nothing(stub: Stub) -> None:  # C-15
    await apply(stub, add("one"))
    bullet = b'{"id": "a", "section": "s", "content": "c", "searchable_text": "c", "sources": [%s]}'
    steps = bullet % b'{"trajectory": "t", "steps": [2147483648]}'
    for content in (
        b'{"bullets": [%s]}' % steps,
        b'{"bullets": [], "metadata": {"created_at": "0001-01-01T00:00:00+23:59"}}',
        b'{"bullets": [{"id": 5}]}',
        b"{",
        b"[x] fine\nnot a bullet\n",
        b"\xff\xfe",
        b"",
        b" \n",
    ):
        with pytest.raises(HanseiError) as caught:
            await import_file(stub, content)
        assert caught.value.code == "INVALID_ARGUMENT"
        assert caught.value.reason == UnreadablePlaybook.reason
    assert await contents(stub) == ["one"]


async def test_the_appworld_playbook_is_exported_as_imported(stub: Stub) -> None:
    path = DATA / "appworld_online_playbook.txt"
    if not path.exists():
        pytest.skip(f"{path} is not there; set HANSEI_DATA to the folder that has it")
    content = path.read_bytes()
    answer = await import_file(stub, content)
    assert (answer.added, answer.format) == (359, service_pb.PLAYBOOK_FORMAT_TEXT_PLAIN)
    exported = await export_file(stub, service_pb.PLAYBOOK_FORMAT_TEXT_PLAIN)

    assert _bullets_under_headings(exported) == _bullets_under_headings(content)
    counted = await export_file(stub, service_pb.PLAYBOOK_FORMAT_TEXT_COUNTED)
    await import_file(stub, counted, dataset="again")
    assert (await export_file(stub, service_pb.PLAYBOOK_FORMAT_TEXT_COUNTED, "again")) == counted


async def test_an_import_that_extends_keeps_votes_and_updates_by_id(stub: Stub) -> None:
    await apply(stub, add("one"), add("two"))
    await apply(stub, votes=[vote("gene-00001", "x")])
    content = b"## GENERAL\n[gene-00001] helpful=9 harmful=1 :: ONE\n[new-00007] helpful=2 harmful=0 :: three\n"
    answer = await import_file(stub, content, replace=False)
    assert (answer.added, answer.updated, answer.removed) == (1, 1, 0)
    shown = [(bullet.id, bullet.content, bullet.helpful) for bullet in (await playbook(stub)).bullets]
    assert shown == [("gene-00001", "ONE", 1), ("gene-00002", "two", 0), ("new-00007", "three", 2)]


def _bullets_under_headings(text: bytes) -> list[tuple[str, str]]:
    """Return each bullet line with the heading above it."""
    heading = ""
    found: list[tuple[str, str]] = []
    for line in text.decode().split("\n"):
        if line.startswith("## "):
            heading = line
        elif line.startswith("["):
            found.append((heading, line))
    return found


async def test_a_large_import_is_committed_in_parts_and_happens_once(stub: Stub) -> None:
    await apply(stub, add("present"))
    count = 2 * PART_BULLETS + 3
    text = "".join(f"[b-{number:05}] lesson {number}\n" for number in range(count)).encode()
    request_id = str(uuid.uuid4())
    answer = await import_file(stub, text, request_id=request_id, replace=False)
    assert (answer.added, answer.updated, answer.removed, answer.revision) == (count, 0, 0, 4)
    assert await import_file(stub, text, request_id=request_id, replace=False) == answer
    exported = await export_file(stub, service_pb.PLAYBOOK_FORMAT_TEXT_PLAIN)
    assert exported.decode().count("\n[b-") == count
    again = await import_file(stub, text, replace=False)
    assert (again.added, again.updated, again.revision) == (0, 0, 4)
    replacing = await import_file(stub, text, replace=True)
    assert (replacing.removed, replacing.revision) == (1, 5)


async def test_an_import_that_broke_off_is_continued(stub: Stub) -> None:
    count = 2 * PART_BULLETS
    text = "".join(f"[b-{number:05}] lesson {number}\n" for number in range(count)).encode()
    first_part = b"".join(text.splitlines(keepends=True)[:PART_BULLETS])
    await import_file(stub, first_part, replace=False)
    answer = await import_file(stub, text, replace=False)
    assert (answer.added, answer.updated, answer.revision) == (PART_BULLETS, 0, 2)
