"""The configuration file and its environment (P-123 to P-128)."""

import logging
from pathlib import Path

import pytest
from pydantic.fields import FieldInfo

from chassis.settings import BadSetting, list_leaf_fields, list_variables
from services.planner.config import GraceConfig, load_grace_config


def test_without_a_file_the_defaults_hold(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:  # P-123, P-126
    with caplog.at_level(logging.WARNING):
        config = load_grace_config(tmp_path / "none.yml")
    assert config == GraceConfig()
    assert "not using it file=none.yml" in caplog.text
    assert (config.llm.provider, config.llm.model) == ("", "")
    assert (config.llm.temperature, config.llm.max_tokens, config.llm.timeout_seconds) == (None, 4096, None)
    assert set(config.llm.retry.model_dump().values()) == {None}  # the shared settings apply


@pytest.mark.parametrize("text", ["a: [", "- 1", "\x00"])
def test_a_broken_file_is_logged_and_not_used(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:  # P-123
    path = tmp_path / "grace_config.yml"
    path.write_text(text)
    with caplog.at_level(logging.WARNING):
        assert load_grace_config(path) == GraceConfig()
    assert "not using it" in caplog.text


def test_the_environment_overrides_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # P-123, P-124
    path = tmp_path / "grace_config.yml"
    path.write_text("confidence:\n  thresholds: {silent: 0.93, notify: 0.8}\nreplan: {max_replans: 1}\n")
    monkeypatch.setenv("GRACE_CONFIDENCE_THRESHOLDS_SILENT", "0.95")
    monkeypatch.setenv("GRACE_INTERVENTION_AUTO_PROCEED_ON_TIMEOUT", "True")
    config = load_grace_config(path)
    thresholds = config.confidence.thresholds
    assert (thresholds.silent, thresholds.notify, thresholds.confirm) == (0.95, 0.8, 0.4)
    assert (config.replan.max_replans, config.intervention.auto_proceed_on_timeout) == (1, True)


def test_unknown_names_are_logged(  # P-124
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRACE_CONFIDENCE_COLOUR", "red")
    with caplog.at_level(logging.WARNING):
        load_grace_config(tmp_path / "none.yml")
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
    parsed = GraceConfig.parse_variable(text, FieldInfo())
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        (
            "GRACE_CONFIDENCE_THRESHOLDS_SILENT",
            "0.5",
            r"^GRACE_CONFIDENCE_THRESHOLDS_SILENT: .*0 <= confirm < notify < silent <= 1",  # P-77
        ),
        ("GRACE_CONFIDENCE_WEIGHTS_TOOL_SUCCESS", "0.9", "Weights must sum to 1.0, got"),  # P-60
        ("GRACE_REPLAN_MAX_REPLANS", "many", r"^GRACE_REPLAN_MAX_REPLANS: .* \(got 'many'\)$"),
    ],
)
def test_a_bad_variable_is_named(  # G-10
    tmp_path: Path, name: str, value: str, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(BadSetting, match=complaint):
        load_grace_config(tmp_path / "none.yml")


def test_a_bad_key_of_the_file_is_named(tmp_path: Path) -> None:  # G-10
    path = tmp_path / "grace_config.yml"
    path.write_text("replan: {max_replans: -1}\nconfidence: {thresholds: {silent: 0.1}}\n")
    with pytest.raises(BadSetting) as raised:
        load_grace_config(path)
    keys = [line.partition(": ")[0] for line in str(raised.value).splitlines()]
    assert keys == ["grace_config.yml:confidence.thresholds.silent", "grace_config.yml:replan.max_replans"]
    path.write_text("confidence: {thresholds: 5}\n")
    with pytest.raises(BadSetting, match=r"^grace_config.yml:confidence.thresholds: must be a mapping$"):
        load_grace_config(path)


def test_no_variable_sets_two_keys() -> None:  # P-124
    variables = [list_variables(GraceConfig, keys) for keys, _ in list_leaf_fields(GraceConfig)]
    assert len(set(variables)) == len(variables)
