"""Test `remember`, `forget` and `edit` of the command line and of both clients on a running server."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from hansei.client import AsyncClient, Client, errors
from hansei.playbook.v1.playbook_pb2 import DELTA_TYPE_UPDATE, Delta
from hansei.playbook.v1.review_pb2 import REVIEW_MODE_REVIEW, DatasetPolicy
from tests.support import systems
from tests.support.commands import Hansei, bullets, dataset, hansei, revision

__all__ = ["dataset", "hansei"]  # fixtures

LESSON = "Run the zebra check before every release."


def test_a_lesson_is_remembered_found_edited_and_forgotten(hansei: Hansei, dataset: str) -> None:
    remembered = hansei("remember", LESSON, "-d", dataset, "--author", "ada", "--reason", "as agreed")
    assert remembered.out == f"shr-00001 remembered: {dataset} is at revision 1\n"
    found = hansei("search", "zebra release", "-d", dataset, "--min-revision", 1, "--json").document["results"]
    assert [result["bullet"]["content"] for result in found] == [LESSON]
    edited = hansei("edit", "shr-00001", "Run the quagga check.", "-d", dataset)
    assert edited.out == f"shr-00001 changed: {dataset} is at revision 2\n"
    found = hansei("search", "quagga", "-d", dataset, "--min-revision", 2, "--json").document["results"]
    assert [result["bullet"]["content"] for result in found] == ["Run the quagga check."]
    forgotten = hansei("forget", "shr-00001", "-d", dataset)
    assert forgotten.out == f"shr-00001 forgotten: {dataset} is at revision 3\n"
    assert bullets(hansei, dataset) == []
    assert hansei("search", "quagga", "-d", dataset, "--min-revision", 3, "--json").document["results"] == []
    first = hansei("playbook", "history", "-d", dataset, "--json").lines[-1]
    assert (first["author"], first["reason"], first["summary"]) == ("ada", "as agreed", "1 added")


def test_a_lesson_that_is_already_there_is_named_and_not_added(hansei: Hansei, dataset: str) -> None:
    hansei("remember", LESSON, "-d", dataset, "--section", "others")
    again = hansei("remember", f"  {LESSON}\n", "-d", dataset)
    assert (again.code, again.out) == (0, f"misc-00001 of {dataset} already says this; nothing was added\n")
    assert revision(hansei, dataset) == 1


def test_an_unknown_bullet_and_a_blank_lesson_are_refused(hansei: Hansei, dataset: str) -> None:
    hansei("remember", LESSON, "-d", dataset)
    set_mode = ("guards", "set", dataset, "shr-00009", "--mode", "shadow")
    for arguments in (("forget", "shr-00009", "-d", dataset), ("edit", "shr-00009", "Text.", "-d", dataset), set_mode):
        refused = hansei(*arguments)
        assert refused.code == 4
        assert f'dataset "{dataset}" has no bullet "shr-00009"' in refused.err
    assert hansei("remember", "  ", "-d", dataset).code == 2
    assert hansei("edit", "shr-00001", "", "-d", dataset).code == 2
    assert hansei("edit", "shr-00001", "-d", dataset).code == 2, "there is no terminal to edit in"
    assert revision(hansei, dataset) == 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_edit_opens_the_editor_on_the_present_text(
    hansei: Hansei, dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hansei("remember", LESSON, "-d", dataset)
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/zebra/quagga/ "$1"\n', encoding="utf-8")
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert hansei("edit", "shr-00001", "-d", dataset).code == 0
    assert [bullet["content"] for bullet in bullets(hansei, dataset)] == [LESSON.replace("zebra", "quagga")]
    assert "not changed" in hansei("edit", "shr-00001", "-d", dataset).err
    unknown = hansei("edit", "shr-00009", "-d", dataset)
    assert (unknown.code, f'dataset "{dataset}" has no bullet "shr-00009"' in unknown.err) == (4, True)
    assert revision(hansei, dataset) == 2


def test_a_lesson_of_a_reviewed_dataset_waits(hansei: Hansei, system: systems.System, dataset: str) -> None:
    with Client(system.address) as client:
        client.playbooks.set_policy(dataset=dataset, policy=DatasetPolicy(review_mode=REVIEW_MODE_REVIEW))
    waiting = hansei("remember", LESSON, "-d", dataset)
    assert waiting.code == 0
    assert "waits for review" in waiting.out
    approval = waiting.out.split("approve it with: hansei ")[1].split()
    assert hansei(*approval).code == 0
    assert [bullet["content"] for bullet in bullets(hansei, dataset)] == [LESSON]


def test_an_edit_of_a_bullet_that_changed_is_refused(system: systems.System, dataset: str) -> None:
    with Client(system.address) as client:
        made = client.remember(dataset, LESSON)
        bullet_id = made.operations[0].bullet_id
        newer = Delta(type=DELTA_TYPE_UPDATE, bullet_id=bullet_id, content="Another text.")
        client.playbooks.apply_deltas(dataset=dataset, deltas=[newer])
        with pytest.raises(errors.Aborted) as refused:
            client.edit(dataset, bullet_id, "Mine.", base_revision=made.revision)
        assert refused.value.reason == "BULLET_CHANGED"
        with pytest.raises(errors.Aborted):
            client.forget(dataset, bullet_id, base_revision=made.revision)
        assert [bullet.content for bullet in client.playbooks.get(dataset=dataset).playbook.bullets] == [
            "Another text."
        ]


async def test_the_async_client_edits_bullets(system: systems.System, dataset: str) -> None:
    async with AsyncClient(system.address) as client:
        made = await client.remember(dataset, LESSON, section="others")
        again = await client.remember(dataset, LESSON)
        bullet_id = made.operations[0].bullet_id
        assert (again.operations[0].bullet_id, again.revision) == (bullet_id, made.revision)
        assert not again.operations[0].applied
        edited = await client.edit(dataset, bullet_id, "Another text.")
        found = await client.search(dataset, "another", min_revision=edited.revision)
        assert [result.bullet.content for result in found.results] == ["Another text."]
        await client.forget(dataset, bullet_id)
        with pytest.raises(errors.NotFound) as refused:
            await client.forget(dataset, bullet_id)
        assert refused.value.reason == "BULLET_NOT_FOUND"
        with pytest.raises(errors.InvalidArgument):
            await client.remember(dataset, "\0")


def test_a_dataset_is_deleted_when_a_person_types_its_name(
    hansei: Hansei, dataset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hansei("remember", LESSON, "-d", dataset)
    refused = hansei("dataset", "delete", dataset)
    assert refused.code == 2
    assert "--yes" in refused.err
    monkeypatch.setattr(sys, "stdin", Terminal("another\n"))
    assert hansei("dataset", "delete", dataset).code == 1
    assert len(bullets(hansei, dataset)) == 1
    monkeypatch.setattr(sys, "stdin", Terminal(f"{dataset}\n"))
    deleted = hansei("dataset", "delete", dataset)
    assert (deleted.code, deleted.out) == (0, f"{dataset} is deleted: 1 bullet and the history are erased\n")
    assert "does not exist" in hansei("playbook", "show", "-d", dataset).err
    again = hansei("remember", LESSON, "-d", dataset)
    assert again.out == f"shr-00001 remembered: {dataset} is at revision 3\n"
    assert hansei("dataset", "delete", dataset, "--yes", "--json").document["revision"] == "4"
    assert "DATASET_NOT_FOUND" in hansei("dataset", "delete", dataset, "--yes").err
