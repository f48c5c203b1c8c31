"""The texts of the console: complete in every language, used, and nowhere else than in the catalogues."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from hansei.evidence.v1 import evidence_pb2
from hansei.gateway.v1 import access_service_pb2, bulk_pb2
from hansei.planner.v1 import planner_pb2
from hansei.playbook.v1 import playbook_pb2, review_pb2
from hansei.reflector.v1 import trajectory_pb2
from tests.console.windows import Stack, reading

SCRIPTS = Path(__file__).parents[2] / "gateway/console/page/js"
LANGUAGES = ("en", "ja")
_ENTRY = re.compile(r'^  ("[^"]+"):\s+("(?:[^"\\]|\\.)*"),$', re.MULTILINE)
_KEY = re.compile(r'\bt\(\s*"([^"]+)"')
_COMPUTED = ("count.", "word.")
"""Beginnings of keys that the code composes."""
_COMMENT = re.compile(r"/\*.*?\*/|^\s*//[^\n]*", re.DOTALL | re.MULTILINE)
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')
_ATTRIBUTE = re.compile(r'(?:class|d|"stroke-linecap"|style|rel|kind|keys|pattern)(?:: |: \$?)$')
_SENTENCE = re.compile(r"[A-Z][a-z]+[ .,:;?!…]|^[A-Z][a-z]+$|[a-z]{2,} [a-z]{2,}")
_NAMES_IN_CODE = {"Enter", "Escape", "Home", "End", "Bearer ", "Authorization", "Enter, o", "Ctrl ↵"}
_NAMES_IN_CODE |= {"voted on", "guard changed", "not serving", "in doubt"}
_NAMES_IN_CODE |= {"text lead", "text card", "text bad", "text mono"}
"""Keys of the keyboard, states, classes and headers, which no reader sees as a text of the page."""
NO_TEXTS = {
    "icons.js": "paths of drawings",
    "snippets.js": "commands and code that users copy",
    "trajectories.js": "an example trajectory, and names of formats",
    "graph.js": "paths of edges",
}
"""Files with strings that look like texts, with the reason; their real texts are in the catalogues."""


SHOWN_ENUMS = {
    access_service_pb2.AccessScope: "ACCESS_SCOPE_",
    bulk_pb2.JobState: "JOB_STATE_",
    evidence_pb2.BulletState: "BULLET_STATE_",
    planner_pb2.Action: "ACTION_",
    planner_pb2.ExecutionStatus: "EXECUTION_STATUS_",
    planner_pb2.InterventionAction: "INTERVENTION_ACTION_",
    planner_pb2.InterventionLevel: "INTERVENTION_LEVEL_",
    planner_pb2.ReplanStrategy: "REPLAN_STRATEGY_",
    planner_pb2.ReplanTrigger: "REPLAN_TRIGGER_",
    planner_pb2.StepStatus: "STEP_STATUS_",
    playbook_pb2.BulletState: "BULLET_STATE_",
    playbook_pb2.DeltaType: "DELTA_TYPE_",
    playbook_pb2.RevisionKind: "REVISION_KIND_",
    playbook_pb2.TargetMode: "TARGET_MODE_",
    playbook_pb2.VoteTag: "VOTE_TAG_",
    review_pb2.PendingState: "PENDING_STATE_",
    trajectory_pb2.SignalStrength: "SIGNAL_STRENGTH_",
    trajectory_pb2.TrajectoryStatus: "TRAJECTORY_STATUS_",
}
"""Values of the contract that pages show as words, with the beginning of their names."""


def read_catalogue(language: str) -> dict[str, str]:
    """Return the texts of a language by key."""
    source = (SCRIPTS / f"texts/{language}.js").read_text(encoding="utf-8")
    return {json.loads(key): json.loads(text) for key, text in _ENTRY.findall(source)}


def list_scripts() -> list[Path]:
    return [path for path in sorted(SCRIPTS.rglob("*.js")) if path.parent.name != "texts"]


def test_all_languages_have_the_same_keys_and_values() -> None:
    english, japanese = (read_catalogue(language) for language in LANGUAGES)
    assert len(english) > 600
    assert english.keys() == japanese.keys()
    parameters = [
        {key: set(re.findall(r"\{(\w+)\}", text)) for key, text in texts.items()} for texts in (english, japanese)
    ]
    assert parameters[0] == parameters[1]


def test_japanese_texts_are_japanese() -> None:
    """Only names of products and words that a value makes are equal in both languages."""
    english, japanese = (read_catalogue(language) for language in LANGUAGES)
    equal = [key for key in english if english[key] == japanese[key] and re.search(r"[a-z]{4}", english[key])]
    assert equal == ["main.hansei", "snippets.claude_code"]


def test_every_text_is_used_and_every_used_text_exists() -> None:
    used = {key for path in list_scripts() for key in _KEY.findall(path.read_text(encoding="utf-8"))}
    present = {key for key in read_catalogue("en") if not key.startswith(_COMPUTED)}
    assert used == present


def test_no_text_is_outside_the_catalogues() -> None:
    found = []
    for path in list_scripts():
        if path.name in NO_TEXTS:
            continue
        code = _COMMENT.sub("", path.read_text(encoding="utf-8"))
        for line in code.splitlines():
            # Imports, and errors that only a developer can cause.
            if (
                re.match(r"\s*(import|export \{|\} from)", line)
                or "throw new TypeError" in line
                or path.name == "texts.js"
            ):
                continue
            for string in _STRING.finditer(line):
                text = re.sub(r"\$\{[^}]*\}", "", string[1] or string[2] or "")
                before = line[: string.start()]
                if text in _NAMES_IN_CODE or _ATTRIBUTE.search(before) or "class:" in before[-40:]:
                    continue
                if "formatPlural(" in before:
                    continue
                if _SENTENCE.search(text):
                    found.append(f"{path.name}: {text}")
    assert not found, "\n".join(found)


def test_nouns_that_are_counted_have_both_forms() -> None:
    catalogue = read_catalogue("en")
    nouns = {
        noun
        for path in list_scripts()
        for noun in re.findall(r'formatPlural\((?:[^()"`]|\([^()]*\))*"([a-z ]+)"\)', path.read_text(encoding="utf-8"))
    }
    assert nouns
    for noun in nouns:
        for form in ("one", "other"):
            assert f"count.{noun.replace(' ', '_')}.{form}" in catalogue


def test_every_value_of_the_contract_that_is_shown_has_a_word() -> None:
    missing = [
        f"{language}: word.{word}"
        for language in LANGUAGES
        for enum, prefix in SHOWN_ENUMS.items()
        for value in enum.DESCRIPTOR.values
        if (word := value.name.removeprefix(prefix).lower()) != "unspecified"
        and f"word.{word}" not in read_catalogue(language)
    ]
    assert missing == []


def test_every_verdict_of_the_contract_has_a_sentence() -> None:
    source = (SCRIPTS / "effects.js").read_text(encoding="utf-8")
    assert set(re.findall(r"^  (VERDICT_\w+):", source, re.MULTILINE)) == set(evidence_pb2.Verdict.keys()[1:])


@pytest.mark.parametrize(
    ("locale", "heading", "language"),
    [("ja-JP", "概要", "ja"), ("en-GB", "Overview", "en"), ("fi-FI", "Overview", "en")],
)
def test_the_console_follows_the_language_of_the_browser(
    browser: Browser, stack: Stack, locale: str, heading: str, language: str
) -> None:
    with reading(browser, stack.url, locale=locale) as reader:
        reader.open("#/overview?dataset=thousand")
        expect(reader.page.get_by_role("heading", level=1)).to_have_text(heading)
        assert reader.page.evaluate("document.documentElement.lang") == language


def test_times_have_the_language_of_the_texts(browser: Browser, stack: Stack) -> None:
    """A browser whose language has no catalogue shows English texts, and English times in them."""
    with reading(browser, stack.url, locale="fi-FI") as reader:
        reader.open("#/playbooks/thousand?time=2030-01-02T12:04:05Z")
        reader.sees("1/2/2030, ")
        reader.open("#/health")
        expect(reader.main.get_by_role("status").first).to_have_text(re.compile("[AP]M"))


@pytest.mark.parametrize(("locale", "numbers"), [("ja-JP", ["ラウンド"]), ("en-GB", ["Rounds"])])
def test_headings_are_aligned_like_their_columns_in_every_language(
    browser: Browser, stack: Stack, locale: str, numbers: list[str]
) -> None:
    """Japanese has one word for "team" and "teams", of which only the second heads a column of numbers."""
    with reading(browser, stack.url, locale=locale) as reader:
        reader.open("#/leaderboard/rounds-1")
        expect(reader.main.locator("th.number")).to_have_text(numbers)
