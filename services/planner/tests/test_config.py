"""The configuration file and its environment (P-123 to P-128)."""

import logging
from pathlib import Path

import pytest

from chassis.settings import BadSetting
from services.planner.config import GraceConfig, load_grace_config, parsed


def test_without_a_file_the_defaults_hold(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:  # P-123, P-126
    with caplog.at_level(logging.WARNING):
        config = load_grace_config(tmp_path / "none.yml", {})
    assert config == GraceConfig()
    assert "not using it file=none.yml" in caplog.text
    assert (config.llm.provider, config.llm.model) == ("gemini", "gemini-2.5-flash")
    assert (config.llm.temperature, config.llm.max_tokens, config.llm.timeout_seconds) == (0.7, 4096, 30)
    assert (config.llm.retry.max_retries, config.llm.retry.base_seconds, config.llm.retry.max_seconds) == (3, 1, 30)


@pytest.mark.parametrize("text", ["a: [", "- 1", "\x00"])
def test_a_broken_file_is_logged_and_left(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:  # P-123
    path = tmp_path / "grace_config.yml"
    path.write_text(text)
    with caplog.at_level(logging.WARNING):
        assert load_grace_config(path, {}) == GraceConfig()
    assert "not using it" in caplog.text


def test_the_environment_goes_on_top_of_the_file(tmp_path: Path) -> None:  # P-123, P-124
    path = tmp_path / "grace_config.yml"
    path.write_text("confidence:\n  thresholds: {silent: 0.93, notify: 0.8}\nreplan: {max_replans: 1}\n")
    config = load_grace_config(
        path, {"GRACE_CONFIDENCE_THRESHOLDS_SILENT": "0.95", "GRACE_INTERVENTION_AUTO_PROCEED_ON_TIMEOUT": "True"}
    )
    thresholds = config.confidence.thresholds
    assert (thresholds.silent, thresholds.notify, thresholds.confirm) == (0.95, 0.8, 0.4)
    assert (config.replan.max_replans, config.intervention.auto_proceed_on_timeout) == (1, True)


def test_unknown_names_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:  # P-124
    with caplog.at_level(logging.WARNING):
        load_grace_config(tmp_path / "none.yml", {"GRACE_CONFIDENCE_COLOUR": "red", "OTHER": "x"})
    assert "unknown setting variable=GRACE_CONFIDENCE_COLOUR" in caplog.text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("FALSE", False),
        ("3", 3),
        ("-3", -3),
        ("0.5", 0.5),
        ("1e3", 1000.0),
        ("a, b", ["a", "b"]),
        ("x", "x"),
    ],
)
def test_values_are_read_in_order(text: str, value: object) -> None:  # P-125
    assert parsed(text) == value
    assert type(parsed(text)) is type(value)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("GRACE_CONFIDENCE_THRESHOLDS_SILENT", "0.5", "0 <= confirm < notify < silent <= 1"),  # P-77
        ("GRACE_CONFIDENCE_WEIGHTS_TOOL_SUCCESS", "0.9", "Weights must sum to 1.0, got"),  # P-60
        ("GRACE_REPLAN_MAX_REPLANS", "many", "GRACE_REPLAN_MAX_REPLANS"),
    ],
)
def test_a_bad_value_is_named(tmp_path: Path, name: str, value: str, told: str) -> None:  # G-10
    with pytest.raises(BadSetting, match=told):
        load_grace_config(tmp_path / "none.yml", {name: value})
