from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest
from langchain_openai import AzureChatOpenAI, ChatOpenAI, OpenAIEmbeddings

from chassis.settings import BadSetting, read_settings
from libs.embedding.connect import connect_remote_model
from libs.embedding.settings import EmbeddingSettings
from libs.llm.chat import OfflineChatModel
from libs.llm.connect import connect_chat
from libs.llm.errors import KeyMissing, ProviderNotInstalled, ProviderUnknown
from libs.llm.providers import create_chat_model, create_embedding_model
from libs.llm.settings import LLMSettings
from libs.llm.usage import Price


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for settings in (LLMSettings, EmbeddingSettings):
        for name in settings.model_fields:
            monkeypatch.delenv(name.upper(), raising=False)
            monkeypatch.delenv(f"HANSEI_{name.upper()}", raising=False)


@pytest.mark.parametrize("provider", ["", "OpenAI", "nobody"])
def test_an_unknown_provider_is_named(provider: str) -> None:
    with pytest.raises(ValueError, match=r"^Unknown provider: ") as caught:  # G-03
        create_chat_model(provider, "m")
    assert str(caught.value) == f"Unknown provider: {provider}"
    with pytest.raises(ProviderUnknown):
        create_embedding_model(provider, "m")


def test_openai_and_azure_get_the_model_and_make_each_call_once() -> None:
    openai = create_chat_model("openai", "gpt-x", api_key="k", temperature=0.5)
    assert isinstance(openai, ChatOpenAI)
    assert (openai.model_name, openai.temperature, openai.max_retries) == ("gpt-x", 0.5, 0)
    azure = create_chat_model("azure", "d", api_key="k", azure_endpoint="http://127.0.0.1", api_version="1")
    assert isinstance(azure, AzureChatOpenAI)
    assert (azure.deployment_name, azure.max_retries) == ("d", 0)
    embeddings = create_embedding_model("openai", "e", api_key="k")
    assert isinstance(embeddings, OpenAIEmbeddings)
    assert (embeddings.model, embeddings.max_retries, embeddings.check_embedding_ctx_length) == ("e", 0, False)


class RecordedModel:
    """Stores the arguments of its constructor."""

    def __init__(self, **options: Any) -> None:
        self.options = options


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins for the libraries of extras that a development machine need not have."""
    for name, classes in {
        "langchain_anthropic": ["ChatAnthropic"],
        "langchain_aws": ["ChatBedrock", "BedrockEmbeddings"],
        "langchain_google_genai": ["ChatGoogleGenerativeAI", "GoogleGenerativeAIEmbeddings"],
    }.items():
        module = ModuleType(name)
        for cls in classes:
            setattr(module, cls, RecordedModel)
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.usefixtures("stand_ins")
def test_other_providers_get_the_model_under_their_own_name() -> None:
    bedrock: Any = create_chat_model("bedrock", "anthropic.claude", region_name="r")
    assert bedrock.options == {"model_id": "anthropic.claude", "region_name": "r", "max_retries": 0}  # G-03
    gemini: Any = create_chat_model("gemini", "g", api_key="k")
    assert gemini.options == {"model": "g", "api_key": "k", "max_retries": 0}
    assert isinstance(create_chat_model("google-gla", "g"), RecordedModel)
    assert isinstance(create_embedding_model("bedrock", "t"), RecordedModel)
    assert isinstance(create_embedding_model("gemini", "t"), RecordedModel)


@pytest.mark.parametrize(
    ("provider", "module", "extra"),
    [("bedrock", "langchain_aws", "bedrock"), ("gemini", "langchain_google_genai", "google")],
)
def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, provider: str, module: str, extra: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ProviderNotInstalled) as caught:
        create_chat_model(provider, "m")
    assert f"pip install 'hansei[{extra}]'" in str(caught.value)


def test_no_providers_library_is_imported_before_it_is_chosen() -> None:
    program = (
        "import sys, libs.llm.connect, libs.llm.settings; libs.llm.providers.create_chat_model('offline', '');"
        "print([name for name in ('langchain_core', 'langchain_openai', 'openai', 'tiktoken') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"  # G-03


def test_the_names_of_the_environment_work_and_those_under_hansei_win(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = LLMSettings()
    assert (defaults.llm_provider, defaults.llm_model) == ("openai", "gpt-4o-mini")  # G-01
    assert defaults.openai_api_key.get_secret_value() == ""
    assert EmbeddingSettings().embedding_model == "text-embedding-3-small"
    monkeypatch.setenv("LLM_PROVIDER", "azure")
    monkeypatch.setenv("LLM_MODEL", "m1")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("HANSEI_LLM_MODEL", "m2")
    monkeypatch.setenv("LLM_PRICES", '{"m2": {"input": 1, "output": 2}}')
    settings = LLMSettings()
    assert (settings.llm_provider, settings.llm_model) == ("azure", "m2")
    assert settings.openai_api_key.get_secret_value() == "k"
    assert settings.get_price("m2") == Price(input=1, output=2)
    assert settings.get_price("gpt-4o-mini") == Price(input=0.15, output=0.60)
    assert settings.get_price("unheard-of") is None


@pytest.mark.parametrize(
    ("variable", "value", "complaint"),
    [
        ("LLM_PROVIDER", "nobody", "LLM_PROVIDER: Unknown provider: nobody"),
        ("LLM_CONCURRENCY", "0", "LLM_CONCURRENCY"),
        ("LLM_TEMPERATURE", "warm", "LLM_TEMPERATURE"),
        ("LLM_PRICES", '{"m": {"input": "cheap"}}', "LLM_PRICES"),
    ],
)
def test_a_setting_that_cannot_be_parsed_ends_the_start(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, complaint: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(BadSetting, match=complaint):  # G-10
        read_settings(LLMSettings)


@pytest.mark.parametrize("key", ["", "  "])
@pytest.mark.parametrize(("provider", "variable"), [("openai", "OPENAI_API_KEY"), ("gemini", "GOOGLE_API_KEY")])
def test_a_missing_key_names_the_variable_and_the_way_out(provider: str, variable: str, key: str) -> None:
    with pytest.raises(KeyMissing) as caught:  # G-08, G-68
        connect_chat(LLMSettings.model_validate({"llm_provider": provider, variable.lower(): key}))
    first, way_out = str(caught.value).splitlines()
    assert first == f"{variable} is not set"
    assert "LLM_PROVIDER=offline" in way_out
    with pytest.raises(KeyMissing):
        connect_remote_model(EmbeddingSettings(), provider)


@pytest.mark.usefixtures("stand_ins")
async def test_providers_without_a_key_variable_start() -> None:
    client = connect_chat(LLMSettings(llm_provider="bedrock"))  # G-08
    assert not client.is_offline
    await client.aclose()


async def test_offline_needs_no_key() -> None:
    settings = LLMSettings(llm_provider="offline")
    assert settings.is_offline
    assert connect_chat(settings).is_offline
    assert isinstance(create_chat_model("offline", ""), OfflineChatModel)
    with pytest.raises(ProviderUnknown, match="Unknown provider: offline"):
        connect_remote_model(EmbeddingSettings(), "offline")


def test_a_key_is_not_shown() -> None:
    assert "sk-secret" not in repr(LLMSettings.model_validate({"openai_api_key": "sk-secret"}))


async def test_a_local_server_needs_no_key() -> None:
    client = connect_chat(LLMSettings(openai_base_url="http://127.0.0.1:1/v1"))
    assert not client.is_offline
    await client.aclose()


def test_azure_without_its_variables_names_them_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_OPENAI_API_KEY", "OPENAI_API_VERSION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "http://127.0.0.1")
    with pytest.raises(KeyMissing) as caught:
        connect_chat(LLMSettings(llm_provider="azure"))
    assert str(caught.value).splitlines()[0] == "AZURE_OPENAI_API_KEY, OPENAI_API_VERSION are not set"


@pytest.mark.usefixtures("stand_ins")
def test_anthropic_has_a_model_of_its_own() -> None:
    settings = LLMSettings.model_validate({"llm_provider": "anthropic", "anthropic_api_key": "k"})
    assert settings.llm_model.startswith("claude-")
    assert not connect_chat(settings).is_offline
