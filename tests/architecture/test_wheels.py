"""`wheels/build.py` can rename the imports of every file, so that no refusal appears first at a release."""

from __future__ import annotations

import tomllib

import pytest

from wheels.build import EXTRAS, ROOT, WHEELS, list_files, rename_modules

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize("wheel", WHEELS)
def test_every_name_in_a_wheel_is_decided(wheel: str) -> None:
    sources = [source for source, _ in list_files(wheel) if source.suffix in (".py", ".pyi")]
    assert sources
    for source in sources:
        rename_modules(source.read_bytes())


def test_the_extras_of_the_client_are_the_servers_of_its_version() -> None:
    extras = PROJECT["optional-dependencies"]
    pinned = f"=={PROJECT['version']}"
    assert extras["server"] == [f"hansei-server{pinned}"]
    assert [extras[name] for name in EXTRAS] == [[f"hansei-server[{name}]{pinned}"] for name in EXTRAS]
