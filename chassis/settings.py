"""Settings: frozen, read once, each with a docstring that gives its unit.

A setting takes its value from the first of: the constructor, the environment, `.env` if its class reads one, a file
if the caller of `read_settings` passes one, its default. `VARIABLES` says which environment variables set it. A default
path in the folder `data` is in the folder that HANSEI_DATA_DIR names instead.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import os
import re
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn, TypeVar, get_origin

from pydantic import BaseModel, Field, JsonValue, SecretStr, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from chassis.errors import BadSetting as BadSetting
from chassis.field_errors import describe_rule, describe_value
from chassis.secrets import remove_secrets

PREFIX = "HANSEI_"
VARIABLES: Mapping[str, tuple[str, ...]] = {
    "Settings": ("HANSEI_{}",),
    "SearchSettings.replicas_address": ("HANSEI_SEARCH_ADDR", "SEARCH_ADDR"),
    "ValidatorSettings.validator_database_url": ("HANSEI_{}", "LEADERBOARD_DB"),
    "PromptBuilderSettings": ("HANSEI_{}", "MIXSEEK_{}", "MIXSEEK_PROMPT_BUILDER__{}"),
    "GraceConfig": ("GRACE_{}",),
}
"""Environment variables by settings class or field, in order of precedence; `{}` is the name of the field in capitals.
A field that `create_plain_field` declares is also read from its bare name in capitals."""

DATA_DIRECTORY_VARIABLE, DATA_FOLDER = "HANSEI_DATA_DIR", "data/"

LARGEST_PORT = 65_535
_ADDRESS_SUFFIX = "_addr"
_PLAIN: dict[str, JsonValue] = {"plain_variable": True}

T = TypeVar("T", bound="Settings")
FieldPath = tuple[str, ...]
Reading = tuple[object, str]
"""A value and where it was read: a variable, or `file:key`."""


def create_plain_field(default: Any, **constraints: Any) -> Any:
    """Return a field that is also read from the variable without a prefix, as users know it: `LLM_PROVIDER`."""
    return Field(default, json_schema_extra=_PLAIN, **constraints)


class Settings(BaseSettings):
    """Base of all settings classes; unknown variables are ignored, because one environment serves many services."""

    model_config = SettingsConfigDict(extra="ignore", frozen=True, validate_default=True)

    empty_is_unset: ClassVar[bool] = True
    """True: an empty variable counts as unset."""
    dotenv: ClassVar[str] = ""
    """Name of a file of variables in the working directory. Empty: none is read."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources by precedence: constructor, variables, default paths in the data directory."""
        defaults = {name: field.default for name, field in cls.model_fields.items()}
        moved = {name: path for name, default in defaults.items() if (path := locate_in_data(default)) != default}
        return init_settings, InitSettingsSource(cls, _nest(_read_variables(cls))), InitSettingsSource(cls, moved)

    @classmethod
    def parse_variable(cls, text: str, field: FieldInfo) -> object:
        """Return the value of a variable; a setting of several parts is JSON. Raises ValueError."""
        if get_origin(field.annotation) not in (dict, list, tuple):
            return text
        try:
            return json.loads(text)
        except ValueError:
            raise ValueError("not JSON") from None


def locate_in_data(default: Any) -> Any:
    """Return a default path in `data` as a path in the folder of HANSEI_DATA_DIR; any other default as it is."""
    folder = os.environ.get(DATA_DIRECTORY_VARIABLE)
    if not folder or not isinstance(default, str) or not default.startswith(DATA_FOLDER):
        return default
    return str(Path(folder) / default.removeprefix(DATA_FOLDER))


def list_variables(settings: type[Settings], path: FieldPath, field: FieldInfo | None = None) -> tuple[str, ...]:
    """Return the environment variables that set a field, the one that wins first."""
    name = "_".join(path).upper()
    names = [base.__name__ for base in settings.__mro__]
    templates = next(VARIABLES[key] for base in names for key in (f"{base}.{path[0]}", base) if key in VARIABLES)
    plain = (name,) if field and field.json_schema_extra == _PLAIN else ()
    return (*(template.format(name) for template in templates), *plain)


def list_leaf_fields(model: type, parents: FieldPath = ()) -> Iterator[tuple[FieldPath, FieldInfo]]:
    """Yield the fields of a settings class and of its sections, each with the names that lead to it.

    A section is a model or a dataclass.
    """
    if dataclasses.is_dataclass(model):
        yield from (((*parents, field.name), FieldInfo()) for field in dataclasses.fields(model))
    elif issubclass(model, BaseModel):
        for name, field in model.model_fields.items():
            section = field.annotation
            if isinstance(section, type) and (issubclass(section, BaseModel) or dataclasses.is_dataclass(section)):
                yield from list_leaf_fields(section, (*parents, name))
            else:
                yield (*parents, name), field


def _read_variables(settings: type[Settings]) -> dict[FieldPath, Reading]:
    """Return the values that the environment and `.env` set. Raises BadSetting."""
    environments: dict[str, Mapping[str, str | None]] = {"": os.environ}
    if settings.dotenv:
        from dotenv import dotenv_values

        environments[f"{settings.dotenv}:"] = dotenv_values(settings.dotenv)
    readings: dict[FieldPath, Reading] = {}
    for origin, environment in environments.items():
        for path, field in list_leaf_fields(settings):
            for variable in list_variables(settings, path, field):
                text = environment.get(variable)
                if path in readings or text is None or (settings.empty_is_unset and not text):
                    continue
                try:
                    readings[path] = settings.parse_variable(text, field), origin + variable
                except ValueError as error:
                    raise BadSetting(f"{origin}{variable}: {error}") from None
    return readings


def _nest(readings: Mapping[FieldPath, Reading]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, (value, _) in readings.items():
        section = tree
        for name in path[:-1]:
            section = section.setdefault(name, {})
        section[path[-1]] = value
    return tree


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """The content of a settings file, or of one table in it."""

    path: Path
    values: Mapping[str, Any]

    @classmethod
    def load(cls, path: Path, table: str = "", default_suffix: str = ".yml") -> SettingsFile:
        """Read a YAML, TOML or JSON file, as its suffix says, or one table of it. Raises BadSetting."""
        suffix = path.suffix if path.suffix in _PARSERS else default_suffix
        try:
            content = _PARSERS[suffix](path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BadSetting(f"{path}: cannot be read as {suffix[1:]}: {error}") from error
        if table and isinstance(content, dict):
            content = content.get(table)
        if content is not None and not isinstance(content, dict):
            raise BadSetting(f"{path}: {table or 'the file'} must be a mapping")
        return cls(path, content or {})

    def list_readings(self, settings: type[Settings]) -> Iterator[tuple[FieldPath, Reading]]:
        """Yield the values of a settings class. Raises BadSetting for a section that is no mapping."""
        for path, _ in list_leaf_fields(settings):
            section = self.values
            for depth, name in enumerate(path[:-1], 1):
                section = section.get(name, {})
                if not isinstance(section, Mapping):
                    raise BadSetting(f"{self.path.name}:{'.'.join(path[:depth])}: must be a mapping")
            if path[-1] in section:
                yield path, (section[path[-1]], f"{self.path.name}:{'.'.join(path)}")


def _parse_yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(error) from error


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    ".toml": tomllib.loads,
    ".yml": _parse_yaml,
    ".yaml": _parse_yaml,
    ".json": json.loads,
}


def check_address(address: str) -> str:
    """Return the address at which a process listens. Raises ValueError: gRPC itself serves another port instead."""
    _, colon, port = address.rpartition(":")
    if address and not address.startswith("unix:") and not (colon and re.fullmatch("[0-9]{1,5}", port)):
        raise ValueError("must be host:port, such as 127.0.0.1:50050")
    if port.isdecimal() and int(port) > LARGEST_PORT:
        raise ValueError(f"the port must be at most {LARGEST_PORT}")
    return address


class ServiceSettings(Settings):
    """Settings that every service has: addresses, TLS, limits, draining, logs and traces."""

    listen_address: str = "127.0.0.1:0"
    """Address of gRPC, `host:port`. Port 0 selects a free port."""

    metrics_address: str = ""
    """Address of Prometheus metrics over HTTP, `host:port`. Empty: not served."""

    health_address: str = ""
    """Address of gRPC health without TLS, `host:port`, for probes that do not speak TLS. Empty: health is served only
    at the address of gRPC."""

    tls_certificate: str = ""
    """File with the certificate chain (PEM) of this process, as a server and as a caller. It may be replaced at any
    time. Empty: plaintext."""

    tls_key: str = ""
    """File with the private key (PEM) of that certificate."""

    tls_authorities: str = ""
    """File with the certificates (PEM) of the authorities that sign the certificates of peers."""

    tls_callers: str = ""
    """Names in the certificates of allowed callers, separated by commas; `*`: every caller with a certificate that the
    authorities signed. Empty: callers need no certificate."""

    plaintext: str = ""
    """Protocols that may leave this machine without TLS, separated by commas: `grpc`, `http`, `metrics`, `health`."""

    reflection: bool = True
    """Serve gRPC reflection, for tools such as grpcurl."""

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """Lowest severity of log records. Successful calls are logged at DEBUG."""

    log_format: Literal["json", "console"] = "json"
    """Format of log records: one JSON object a line, or text for people."""

    max_concurrent_calls: int = Field(256, ge=1)
    """Concurrent unary calls of one gRPC service; further calls are refused with RESOURCE_EXHAUSTED."""

    max_concurrent_streams: int = Field(256, ge=1)
    """Concurrent streaming calls of one gRPC service; further calls are refused with RESOURCE_EXHAUSTED."""

    overload_retry_seconds: float = Field(0.5, gt=0)
    """Seconds after which a refused caller should retry."""

    max_message_bytes: int = Field(16 * 1024 * 1024, ge=1024 * 1024)
    """Largest gRPC message, in bytes, received or sent; at least 1 MiB, so that a change of a bullet, which contains
    its old and its new text, fits."""

    max_connection_age_seconds: int = Field(300, ge=1)
    """Seconds after which a client connection is closed gracefully, so that clients find new servers."""

    lame_duck_seconds: float = Field(0.5, ge=0)
    """Seconds between reporting NOT_SERVING and refusing new calls, so that load balancers notice."""

    drain_grace_seconds: float = Field(20.0, ge=0)
    """Seconds for running calls to finish after a SIGTERM."""

    database_wait_seconds: float = Field(30.0, ge=0)
    """Seconds for which a starting service waits for a database that does not answer."""

    trace_sample_ratio: float = Field(1.0, ge=0, le=1)
    """Share of new traces to export, 0 to 1. Traces are exported only when OTEL_EXPORTER_OTLP_ENDPOINT is set."""

    _check_addresses = field_validator("listen_address", "metrics_address", "health_address")(check_address)

    @field_validator("plaintext")
    @classmethod
    def _check_kinds(cls, value: str) -> str:
        unknown = sorted(set(_split_list(value)) - {"grpc", "http", "metrics", "health"})
        if unknown:
            raise ValueError(f"unknown: {', '.join(unknown)}; allowed are grpc, http, metrics and health")
        return value

    @property
    def plaintext_kinds(self) -> tuple[str, ...]:
        """Return the kinds of connection that `plaintext` names."""
        return _split_list(self.plaintext)

    @property
    def allowed_callers(self) -> tuple[str, ...]:
        """Return the names in `tls_callers`."""
        return _split_list(self.tls_callers)

    def list_peer_addresses(self) -> Mapping[str, str]:
        """Return the address of each peer, from every non-empty field `<peer>_addr`."""
        fields = ((name, getattr(self, name)) for name in type(self).model_fields)
        return {
            name.removesuffix(_ADDRESS_SUFFIX): value
            for name, value in fields
            if name.endswith(_ADDRESS_SUFFIX) and value
        }


def _split_list(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


def read_settings(settings: type[T], file: SettingsFile | None = None, **overrides: Any) -> T:
    """Return the settings. Raises BadSetting with a line for each bad one: the variable or file and key, the rule."""
    readings = dict(file.list_readings(settings)) if file else {}
    readings |= _read_variables(settings)
    try:
        return settings(**(_nest(readings) | overrides))
    except ValidationError as error:
        raise BadSetting("\n".join(_find_complaints(settings, error, readings))) from error


def exit_for(complaint: str) -> NoReturn:
    """Print why the process cannot start, without a traceback, and exit with status 1 (G-08, G-10)."""
    print(remove_secrets(complaint), file=sys.stderr)
    raise SystemExit(1)


def _find_complaints(
    settings: type[Settings], error: ValidationError, readings: Mapping[FieldPath, Reading]
) -> Iterator[str]:
    """Yield one line for each bad setting."""
    fields = dict(list_leaf_fields(settings))
    for item in error.errors(include_url=False):
        rule = describe_rule(item)
        location = tuple(map(str, item["loc"]))
        paths = [path for path in fields if location and path[: len(location)] == location[: len(path)]]
        sources = ", ".join(readings[path][1] for path in paths if path in readings)
        if paths and not sources:
            sources = list_variables(settings, paths[0], fields[paths[0]])[-1]
        if item["type"] == "missing":
            yield f"{sources} is not set"
        elif not sources or any(_is_secret(fields[path]) for path in paths):
            yield f"{sources}: {rule}" if sources else rule
        else:
            yield f"{sources}: {rule} (got {remove_secrets(describe_value(item['input']))})"


def _is_secret(field: FieldInfo) -> bool:
    return field.annotation is SecretStr or SecretStr in getattr(field.annotation, "__args__", ())


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One line of a settings table."""

    name: str
    variables: tuple[str, ...]
    default: str
    doc: str
    secret: bool = False

    def read_value(self) -> tuple[str, str]:
        """Return the setting as it stands in the environment and its variable, or the default and `default`."""
        variable = next((name for name in self.variables if os.environ.get(name)), None)
        if variable:
            return os.environ[variable], variable
        value: str = locate_in_data(self.default)
        return value, "default" if value == self.default else DATA_DIRECTORY_VARIABLE


def list_settings(settings: type[Settings]) -> list[SettingRow]:
    """Return every setting of a class, in order of declaration; defaults as they would stand in the environment.

    Raises TypeError for a setting without a docstring.
    """
    docs = _read_docstrings(settings)
    if undocumented := [name for name in settings.model_fields if name not in docs]:
        raise TypeError(f"{settings.__name__}.{undocumented[0]} has no docstring")
    return [
        SettingRow(
            name, list_variables(settings, (name,), field), _format_default(field), docs[name], _is_secret(field)
        )
        for name, field in settings.model_fields.items()
    ]


def _read_docstrings(settings: type[Settings]) -> dict[str, str]:
    """Return the docstrings under the fields of a class and its bases, on one line each."""
    docs: dict[str, str] = {}
    for base in reversed(settings.__mro__):
        if issubclass(base, Settings):
            docs |= _read_own_docstrings(base)
    return docs


@cache
def _read_own_docstrings(settings: type[Settings]) -> Mapping[str, str]:
    """Return the docstrings under the fields of a class, from the source: a process that starts reads none."""
    docs: dict[str, str] = {}
    (declared,) = ast.parse(textwrap.dedent(inspect.getsource(settings))).body
    for field, text in pairwise(declared.body if isinstance(declared, ast.ClassDef) else ()):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(doc))):
                docs[name] = " ".join(doc.split())
    return docs


def _format_default(field: FieldInfo) -> str:
    if field.is_required():
        return "(required)"
    value = field.get_default(call_default_factory=True, validated_data={})
    return "" if value is None or isinstance(value, SecretStr) else str(value)
