"""The contract reference of the docs site is the one that the protos generate."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from docs.contract_pages import FOLDER
from tests.contract import contracts
from tests.support.shared_resources import CODE, ROOT


def test_the_pages_are_those_of_the_protos(tmp_path: Path) -> None:
    # In a separate process: the texts of options depend on the extensions that a process has loaded.
    command = [sys.executable, "-m", "docs.contract_pages", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": CODE}, check=True)
    committed, generated = ({path.name: path.read_text() for path in folder.iterdir()} for folder in (FOLDER, tmp_path))
    assert committed == generated, "run `python -m docs.contract_pages`"


def test_every_method_is_on_a_page() -> None:
    for method in contracts.methods():
        package = method.containing_service.full_name.rpartition(".")[0]
        assert f"### {method.name}\n" in (FOLDER / f"{package}.md").read_text(), method.full_name
