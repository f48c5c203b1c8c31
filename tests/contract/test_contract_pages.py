"""The contract reference of the docs site is that of the protos; run this module (`python -m`) to write it anew."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.contract import contracts
from tests.contract.contract_pages import FOLDER, ROOT, pages


def environment() -> dict[str, str]:
    """Return the environment of this process, with the code of the repository on the path."""
    code = os.pathsep.join(str(ROOT / part) for part in ("", "stubs", "sdk"))
    return {**os.environ, "PYTHONPATH": code}


def test_the_pages_are_those_of_the_protos() -> None:
    written = {path: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    # In a process of its own: how options are written depends on the extensions that a process has loaded.
    command = [sys.executable, "-m", "tests.contract.contract_pages"]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=True)
    expected = {Path(path): text for path, text in json.loads(done.stdout).items()}
    assert written == expected, "run `python -m tests.contract.test_contract_pages`"


def test_every_method_is_on_a_page() -> None:
    contents = pages()
    for method in contracts.methods():
        package = method.containing_service.full_name.rpartition(".")[0]
        assert f"### {method.name}\n" in contents[FOLDER / f"{package}.md"], method.full_name


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in FOLDER.glob("*.md"):
        path.unlink()
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
