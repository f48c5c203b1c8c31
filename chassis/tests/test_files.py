"""Replacement of files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from chassis.files import replace_file


def test_a_file_is_replaced_with_its_permissions(tmp_path: Path) -> None:
    file = tmp_path / "new" / "settings.json"
    replace_file(file, b"first")
    assert file.read_bytes() == b"first"
    file.chmod(0o640)
    replace_file(file, "第二".encode())
    assert file.read_text(encoding="utf-8") == "第二"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert list(file.parent.iterdir()) == [file]


def test_a_new_file_has_the_permissions_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        replace_file(tmp_path / "file", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_a_failure_leaves_the_file_as_it_is_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    replace_file(file, b"first")

    def refuse(self: Path, target: Path) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="no space left"):
        replace_file(file, b"second")
    assert file.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [file]
