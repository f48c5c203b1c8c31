"""Secrets in texts: the search for anchors, and JSON within texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis import secrets


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"password": "hunter2", "user": "bob"}', '{"password": "[redacted]", "user": "bob"}'),
        (r'{"a": "{\"db_password\": \"hunter2\"}"}', r'{"a": "{\"db_password\": \"[redacted]\"}"}'),
        ('{"token": 5, "password": ""}', '{"token": 5, "password": ""}'),
        ("straße password=geheim", "straße password=[redacted]"),
    ],
)
def test_secrets_that_are_members_of_json_in_a_text(text: str, expected: str) -> None:
    assert secrets.remove_secrets(text) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("npx server --api-key abc --port 80", "npx server --api-key [redacted] --port 80"),
        (
            '{"git": ["npx", "--token", "abc", "--port", "80"]}',
            '{"git": ["npx", "--token", "[redacted]", "--port", "80"]}',
        ),
        (["npx", "--github-token", "abc", "-v"], ["npx", "--github-token", "[redacted]", "-v"]),
        (["--token", "--verbose", "x"], ["--token", "--verbose", "x"]),
        ("the price per-token is low, and a token costs more", "the price per-token is low, and a token costs more"),
    ],
)
def test_values_of_secret_options_of_a_command_line(value: object, expected: object) -> None:
    assert secrets.remove_secrets(value) == expected


_FRAGMENTS = [
    *("Bearer ", "basic ", "sk-", "AIza", "hansei_", "eyJ", "-----BEGIN RSA PRIVATE KEY-----", "-----END", "://"),
    *("https://", "postgresql+psycopg://", "user:pa/ss@host", ":pw@h", "api_key=", "API-KEY", '"password": "x"'),
    *(
        r"\"token\": \"abc\"",
        "token=",
        "ghp_",
        "github_pat_",
        "glpat-",
        "xoxb-",
        "AKIA",
        "npm_",
        "pypi-",
        "hf_",
        "?key=",
        "&sig=",
        "abcdefgh12345678ABCD",
        "0123456789abcdef_abcdefghijklmnopqrs",
    ),
    *(
        ".",
        " ",
        "\n",
        "@",
        '"',
        "'",
        "cookie",
        'access_key":"v',
        "x",
        "9",
        "ß",
        "日本",
        "_",
        "-",
        "=",
        "passphrase=",
        "--token ",
        "--api-key",
    ),
]


@given(st.lists(st.sampled_from(_FRAGMENTS), max_size=9).map("".join))
def test_the_search_for_anchors_finds_what_the_pattern_finds(text: str) -> None:
    assert secrets.remove_secrets(text) == secrets._compile_redacted_forms().sub(secrets._redact_match, text)
