"""The names that Python source gets on its way into a wheel."""

from __future__ import annotations

import pytest

from wheels.build import AmbiguousNameError, rename_modules


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("from chassis.errors import X", "from hansei_chassis.errors import X"),
        ("from chassis import errors", "from hansei_chassis import errors"),
        ("import chassis", "import hansei_chassis as chassis"),
        ("import chassis.errors as e, os", "import hansei_chassis.errors as e, os"),
        ("from services.search import settings", "from hansei_server.services.search import settings"),
        ("from buf.validate import validate_pb2", "from hansei_buf.validate import validate_pb2"),
        (
            "def f():\n    é = 1; from libs.llm import chat",
            "def f():\n    é = 1; from hansei_server.libs.llm import chat",
        ),
        ("from . import services", "from . import services"),
        ("from hansei.gateway.v1 import x", "from hansei.gateway.v1 import x"),
        ("names = ['services.search.settings']", "names = ['hansei_server.services.search.settings']"),
        (
            "a = 'services.search.settings.SearchSettings'",
            "a = 'hansei_server.services.search.settings.SearchSettings'",
        ),
        ("peers = ['gateway']", "peers = ['gateway']"),
        ("file = 'config/sections.yaml'", "file = 'config/sections.yaml'"),
        ("name = 'gateway.v1'", "name = 'gateway.v1'"),
        ("services.append(gateway.x)", "services.append(gateway.x)"),
        ('"""See services.search.settings."""', '"""See services.search.settings."""'),
    ],
)
def test_names_of_modules_are_those_of_the_wheel(here: str, there: str) -> None:
    assert rename_modules(here.encode()).decode() == there


@pytest.mark.parametrize(
    "source",
    [
        "import services.search.settings",
        "from tests.support.shared_resources import CODE",
        "import bench.report",
        "f'services.{name}.settings'",
        "'python -m services.search'",
        "command = ['-m', 'gateway']",
        "from \\\n    services.search import settings",
        "a = ('services.'\n     'search')",
    ],
)
def test_a_name_that_cannot_be_decided_ends_the_build(source: str) -> None:
    with pytest.raises(AmbiguousNameError, match=r"^\d+: "):
        rename_modules(f"x = {source}".encode() if source.startswith(("f'", "'")) else source.encode())
