"""Secrets in texts: the search for anchors, and JSON within texts."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
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
        "---",
        "a-b.c+d://",
        "://:",
        "1.2.",
        "80/",
        "c" * 490,
        "\u0130",
        "\u0131",
        "\u017f",
        "\u212a",
    ),
]
_WHOLE_FORMS = re.compile(
    f"{secrets._REDACTED_FORMS}|{secrets._REDACTED_URL}".replace(
        "PRIVATE KEY-----)", r"PRIVATE KEY-----)(?s:.*?)(?:(?=-----END)|\Z)"
    ).replace("(?!(?P=quote)).", "(?:(?!(?P=quote)).)+"),
    re.IGNORECASE,
)
"""The forms with the ends of private keys and members, which the module finds without the pattern."""


@given(st.lists(st.sampled_from(_FRAGMENTS), max_size=9).map("".join))
@example("\u0131http://u:p@h")
@example("sk-abcdefgh12.b://:pw@h")
def test_the_search_for_anchors_finds_what_the_pattern_finds(text: str) -> None:
    expected = _WHOLE_FORMS.sub(lambda found: f"{found[found.lastgroup or 0]}[redacted]", text)
    assert secrets.remove_secrets(text) == expected


def test_the_search_for_anchors_folds_each_letter_that_the_pattern_takes_for_another() -> None:
    letters = re.findall("[a-z]", "".join(map(chr, range(0x10000))), re.IGNORECASE)
    assert len(letters) > 52
    for letter in letters:
        assert re.fullmatch(re.escape(secrets._fold_case(letter)), letter, re.IGNORECASE)
        assert secrets._fold_case(letter) in "abcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize(
    "text",
    [
        "a-b-c://" * 10_000,
        "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o://u" * 10_000,
        "://:" * 100_000 + " @",
        "basic://sk-" * 30_000,
        f"a://b:{'c' * 501}@" * 500,
        "http://host:80/" * 10_000 + "@",
    ],
    ids=lambda text: text[:12],
)
def test_a_text_of_urls_without_a_password_has_no_start_of_a_match(text: str) -> None:
    assert list(secrets._list_url_starts(text, text)) == []
    assert secrets.remove_secrets(text) == text


def test_a_line_of_dashes_begins_one_option() -> None:
    assert list(secrets._list_starts("-" * 100_000 + "token x", "--")) == [99_998]


def test_a_long_quote_is_not_compared_with_each_character() -> None:
    quote = "\\" * 20_000 + '"'
    text = f"password{quote}:{quote}{(quote[1:] + 'x') * 20}"
    assert secrets.remove_secrets(f"{text}{quote}.") == f"password{quote}:{quote}[redacted]{quote}."
    assert secrets.remove_secrets(f"{text}\n{quote}.") == f"password{quote}:{quote}[redacted]\n{quote}."
