"""The commands of the READMEs and the docs site work, word for word."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
from pathlib import Path

import pytest

from tests.contract.readmes import READMES, ROOT, SITE, Example, all_lines, by_buf, complete_example, example_lines
from tests.contract.reflection import by_reflection
from tests.support import systems
from tests.support.commands import runner

# grpcurl calls the system that readers start; the other forms must respond to the same lines.
CLIENTS = {"one process": by_buf, "separate processes": by_reflection, "replicated": by_reflection}
BY_README = {readme: list(lines) for readme, lines in itertools.groupby(example_lines(), lambda line: line.readme)}
# Readers of the site start everything in one process; the READMEs describe the services, in whatever form they run.
CASES = [
    pytest.param(form, readme, id=f"{form}-{readme.relative_to(ROOT)}")
    for readme in sorted(BY_README)
    for form in (["one process"] if readme in SITE else CLIENTS)
]


@pytest.mark.parametrize(("system", "readme"), CASES, indirect=["system"])
def test_the_lines_of_a_page_work(
    system: systems.System,
    readme: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(ROOT / "examples/trajectories", tmp_path / "examples/trajectories")
    shutil.copytree(ROOT / "examples/formats", tmp_path / "examples/formats")
    shutil.copytree(ROOT / "examples/transcripts/claude-code", tmp_path / ".claude/projects/-src-shop")
    shutil.copytree(ROOT / "examples/transcripts/codex", tmp_path / ".codex/sessions/2026/11/02")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HANSEI_ADDR", system.address)
    # Tools such as curl use one address; gRPC clients use all.
    address, output = system.replicas("gateway")[0], ""
    for example in BY_README[readme]:
        if example.language == "python":
            exec(compile(example.command, str(readme), "exec"), {"__name__": "__main__"})
        elif example.command.startswith("hansei "):
            words = shlex.split(example.command, comments=True)[1:]
            if words == ["up"]:
                continue  # the system of the tests is up
            result = runner(capfd)(*(os.path.expanduser(word) for word in words))
            assert result.code == 0, f"{example.command}\n{result.out}{result.err}"
        else:
            output += CLIENTS[system.form](complete_example(example, output), address)


@pytest.mark.parametrize("page", SITE, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_of_the_site_is_executed(page: Path) -> None:
    """Lines that install, set up or start something are exempt; they run before the others."""
    programs = {"grpcurl", "hansei", "make", "export", "pip", "uv", "docker"}
    lines = [example.command for example in all_lines(page) if example.language == "sh"]
    if not {"adr", "operations"} & set(page.parts):
        assert [line for line in lines if line.split()[0] not in programs] == []


def test_the_readme_of_each_service_has_a_line_for_it() -> None:
    for name in systems.SERVICES:
        readme = ROOT / (name if name == "gateway" else f"services/{name}") / "README.md"
        lines = [line.command for line in example_lines() if line.readme == readme]
        assert any(f" hansei.{name}.v1." in line for line in lines), name


def test_every_service_has_a_readme() -> None:
    folders = [ROOT / (name if name == "gateway" else f"services/{name}") for name in systems.SERVICES]
    assert {folder / "README.md" for folder in folders} <= set(READMES)


def test_a_line_that_fails_is_noticed(system: systems.System) -> None:
    wrong = Example(ROOT / "README.md", "grpcurl -plaintext localhost:1 hansei.search.v1.SearchService/Nothing")
    with pytest.raises(AssertionError):
        CLIENTS[system.form](wrong, system.replicas("gateway")[0])
