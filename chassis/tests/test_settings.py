from pathlib import Path

import pytest
from pydantic import Field, SecretStr, ValidationError

from chassis.settings import (
    BadSetting,
    ServiceSettings,
    Settings,
    SettingsFile,
    create_plain_field,
    exit_for,
    list_settings,
    read_settings,
)


class ShopSettings(ServiceSettings):
    search_alpha: float = create_plain_field(0.5, ge=0, le=1)
    """Weight of the vector score, 0 to 1."""

    openai_api_key: SecretStr = create_plain_field(SecretStr(""))
    """Key of the model provider."""

    pin: SecretStr | None = Field(None, min_length=4)
    """Pin of the shop."""

    curator_addr: str = create_plain_field("")
    """Address of the curator, `host:port`."""

    search_addr: str = create_plain_field("")
    """Address of search, `host:port`."""


class StrictSettings(Settings):
    shop_name: str
    """Name of the shop."""


class PricedSettings(Settings):
    prices: dict[str, float] = create_plain_field({})
    """Prices by article, as JSON."""


def test_settings_have_defaults_and_are_frozen() -> None:
    settings = read_settings(ShopSettings)

    assert settings.search_alpha == 0.5
    with pytest.raises(ValidationError):
        settings.search_alpha = 0.7  # type: ignore[misc]


def test_the_plain_name_works_and_the_prefixed_one_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCH_ALPHA", "0.7")
    assert read_settings(ShopSettings).search_alpha == 0.7

    monkeypatch.setenv("HANSEI_SEARCH_ALPHA", "0.9")
    assert read_settings(ShopSettings).search_alpha == 0.9
    assert read_settings(ShopSettings, search_alpha=0.1).search_alpha == 0.1


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANSEI_SEARCH_ALPHA", "")
    monkeypatch.setenv("SEARCH_ALPHA", "0.7")

    assert read_settings(ShopSettings).search_alpha == 0.7


@pytest.mark.parametrize("name", ["SEARCH_ALPHA", "HANSEI_SEARCH_ALPHA"])
@pytest.mark.parametrize("value", ["a lot", "1.5", "-0.1", "nan"])
def test_a_bad_setting_is_named(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:  # G-10
    monkeypatch.setenv(name, value)

    with pytest.raises(BadSetting, match=f"^{name}: "):
        read_settings(ShopSettings)


def test_all_bad_settings_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANSEI_LOG_LEVEL", "LOUD")
    monkeypatch.setenv("HANSEI_MAX_MESSAGE_BYTES", "1")

    with pytest.raises(BadSetting) as refused:
        read_settings(ShopSettings)

    lines = str(refused.value).splitlines()
    assert [line.split(":")[0] for line in lines] == ["HANSEI_LOG_LEVEL", "HANSEI_MAX_MESSAGE_BYTES"]
    assert "(got 'LOUD')" in lines[0]


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:99999", "127.0.0.1:-1", "127.0.0.1:http", "host:"])
def test_an_address_at_which_nothing_can_listen_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANSEI_LISTEN_ADDRESS", address)
    with pytest.raises(BadSetting, match=r"^HANSEI_LISTEN_ADDRESS: .*port"):
        read_settings(ShopSettings)


@pytest.mark.parametrize("address", ["127.0.0.1:0", ":50051", "[::1]:65535", "unix:/tmp/hansei.sock"])
def test_an_address_at_which_a_process_can_listen_is_taken(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANSEI_LISTEN_ADDRESS", address)
    assert read_settings(ShopSettings).listen_address == address


def test_a_missing_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HANSEI_SHOP_NAME", raising=False)

    with pytest.raises(BadSetting, match=r"^HANSEI_SHOP_NAME is not set$"):
        read_settings(StrictSettings)


def test_a_bad_secret_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANSEI_PIN", "123")

    with pytest.raises(BadSetting) as refused:
        read_settings(ShopSettings)

    complaint = str(refused.value)
    assert complaint.startswith("HANSEI_PIN: ")
    assert "123" not in complaint


@pytest.mark.parametrize("variable", ["PRICES", "HANSEI_PRICES"])
def test_a_setting_with_invalid_json_is_named(  # G-10
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "sk-hunter2hunter2 {")
    with pytest.raises(BadSetting, match=f"^{variable}: not JSON$"):
        read_settings(PricedSettings)


def test_a_password_inside_another_setting_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCH_ALPHA", "postgresql://app:hunter2@db/x")
    with pytest.raises(BadSetting) as refused:
        read_settings(ShopSettings)

    complaint = str(refused.value)
    assert "hunter2" not in complaint
    assert "postgresql://app:" in complaint


def test_a_settings_error_is_written_to_stderr_unchanged(capsys: pytest.CaptureFixture[str]) -> None:  # G-08
    with pytest.raises(SystemExit) as exit_:
        exit_for("OPENAI_API_KEY is not set")

    assert exit_.value.code == 1
    assert capsys.readouterr().err == "OPENAI_API_KEY is not set\n"


def test_peers_are_the_services_whose_address_is_set() -> None:
    assert read_settings(ShopSettings, search_addr="s:1").list_peer_addresses() == {"search": "s:1"}


def test_every_setting_of_a_service_is_documented_with_its_variables() -> None:
    rows = {row.name: row for row in list_settings(ShopSettings)}

    assert all(row.doc for row in rows.values())
    assert rows["search_alpha"].variables == ("HANSEI_SEARCH_ALPHA", "SEARCH_ALPHA")
    assert rows["log_level"].variables == ("HANSEI_LOG_LEVEL",)
    assert rows["drain_grace_seconds"].default == "20.0"
    assert rows["openai_api_key"].default == ""


def test_a_setting_without_a_docstring_is_refused_by_the_table() -> None:
    class UndocumentedSettings(Settings):
        colour: str = ""
        """Colour of the shop."""

        size: str = ""

    with pytest.raises(TypeError, match=r"UndocumentedSettings\.size has no docstring"):
        list_settings(UndocumentedSettings)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("shop.yml", "search_alpha: 0.3\nprices: {tea: 2.5}\n"),
        ("shop.toml", "search_alpha = 0.3\n[prices]\ntea = 2.5\n"),
        ("shop.json", '{"search_alpha": 0.3, "prices": {"tea": 2.5}}'),
    ],
)
def test_a_file_is_read_by_its_suffix_and_variables_override_it(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    path.write_text(text)
    file = SettingsFile.load(path)

    assert read_settings(ShopSettings, file).search_alpha == 0.3
    assert read_settings(PricedSettings, file).prices == {"tea": 2.5}
    monkeypatch.setenv("SEARCH_ALPHA", "0.7")
    assert read_settings(ShopSettings, file).search_alpha == 0.7
    assert read_settings(ShopSettings, file, search_alpha=0.1).search_alpha == 0.1


def test_a_bad_value_of_a_file_is_named_by_file_and_key(tmp_path: Path) -> None:
    path = tmp_path / "shop.yml"
    path.write_text("shop: {search_alpha: 7}\nother: 1\n")

    with pytest.raises(BadSetting, match=r"^shop\.yml:search_alpha: must be at most 1\.0 \(got 7\)$"):
        read_settings(ShopSettings, SettingsFile.load(path, "shop"))
    with pytest.raises(BadSetting, match="other must be a mapping"):
        SettingsFile.load(path, "other")


def test_a_setting_shows_which_variable_it_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {row.name: row for row in list_settings(ShopSettings)}
    monkeypatch.setenv("SEARCH_ALPHA", "0.7")
    monkeypatch.setenv("HANSEI_SEARCH_ALPHA", "")

    assert rows["search_alpha"].read_value() == ("0.7", "SEARCH_ALPHA")
    assert rows["drain_grace_seconds"].read_value() == ("20.0", "default")
