"""Settings: frozen, read from the environment once, each with a docstring that gives its unit.

A field ``log_level`` is read from ``HANSEI_LOG_LEVEL``. A field declared with `named` also has the plain environment
name that users know (``LLM_PROVIDER``); the name under ``HANSEI_`` wins. An empty variable counts as unset.
"""

from __future__ import annotations

import ast
import inspect
import os
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NoReturn, TypeVar

from pydantic import AliasChoices, Field, SecretStr, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from chassis.errors import BadSetting as BadSetting
from chassis.errors import shortened
from chassis.logging import without_secrets

PREFIX = "HANSEI_"
_ADDRESS_SUFFIX = "_addr"

T = TypeVar("T", bound="Settings")


def named(default: Any, env: str, **constraints: Any) -> Any:
    """A field that is also read from the plain variable `env`, which must be its own name in capitals."""
    return Field(default, validation_alias=AliasChoices(PREFIX + env, env), **constraints)


def variables(name: str, field: FieldInfo) -> tuple[str, ...]:
    """The environment variables a field is read from, the one that wins first."""
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        return tuple(str(choice) for choice in alias.choices)
    return (alias,) if isinstance(alias, str) else (PREFIX + name.upper(),)


class Settings(BaseSettings):
    """Base of all settings classes; unknown variables are ignored, because one environment serves many services."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        populate_by_name=True,
        validate_default=True,
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        for name, field in cls.model_fields.items():
            if PREFIX + name.upper() not in variables(name, field):
                raise TypeError(f"{cls.__name__}.{name} must be readable as {PREFIX}{name.upper()}")


class ServiceSettings(Settings):
    """What every service has: where it listens, how it drains, how much it takes on, how it tells what it does."""

    listen_address: str = "127.0.0.1:0"
    """Where gRPC is served, `host:port`. Port 0 takes a free one."""

    metrics_address: str = ""
    """Where Prometheus metrics are served over HTTP, `host:port`. Empty: not at all."""

    health_address: str = ""
    """Where gRPC health, and nothing else, is served without TLS, `host:port`, for probes that do not speak TLS.
    Empty: only beside the services."""

    tls_certificate: str = ""
    """File with the certificate chain (PEM) that this process shows, as a server and as a caller. It may be replaced
    at any time. Empty: plaintext."""

    tls_key: str = ""
    """File with the private key (PEM) of that certificate."""

    tls_authorities: str = ""
    """File with the certificates (PEM) of the authorities that others' certificates must be signed by."""

    tls_callers: str = ""
    """Who may call, by the names in their certificates, separated by commas; `*`: everyone whose certificate the
    authorities signed. Empty: callers need no certificate."""

    plaintext: str = ""
    """What may go without TLS beyond this machine, separated by commas: `grpc`, `http`, `metrics`, `health`."""

    reflection: bool = True
    """Whether the server describes its contract to tools such as grpcurl."""

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """The least severe log record that is written. Finished calls that went well are written at DEBUG."""

    log_format: Literal["json", "console"] = "json"
    """How log records look: one JSON object a line, or text for people."""

    max_concurrent_calls: int = Field(256, ge=1)
    """Unary calls of one gRPC service handled at once; more are refused with RESOURCE_EXHAUSTED."""

    max_concurrent_streams: int = Field(256, ge=1)
    """Streaming calls of one gRPC service open at once; more are refused with RESOURCE_EXHAUSTED."""

    overload_retry_seconds: float = Field(0.5, gt=0)
    """Seconds after which a refused caller is told to come back."""

    max_message_bytes: int = Field(16 * 1024 * 1024, ge=64 * 1024)
    """Largest gRPC message taken or sent, bytes."""

    max_connection_age_seconds: int = Field(300, ge=1)
    """Seconds after which a client connection is closed gently, so that clients find new servers."""

    lame_duck_seconds: float = Field(0.5, ge=0)
    """Seconds between saying NOT_SERVING and refusing new calls, for balancers to notice."""

    drain_grace_seconds: float = Field(20.0, ge=0)
    """Seconds that running calls get to finish after a SIGTERM."""

    database_wait_seconds: float = Field(30.0, ge=0)
    """Seconds a starting service waits for a database that does not answer, before it gives up."""

    trace_sample_ratio: float = Field(1.0, ge=0, le=1)
    """Share of new traces exported, 0 to 1. Traces are exported only when OTEL_EXPORTER_OTLP_ENDPOINT is set."""

    @field_validator("plaintext")
    @classmethod
    def _known_kinds(cls, value: str) -> str:
        unknown = sorted(set(_listed(value)) - {"grpc", "http", "metrics", "health"})
        if unknown:
            raise ValueError(f"unknown: {', '.join(unknown)}; it may name grpc, http, metrics and health")
        return value

    @property
    def plaintext_kinds(self) -> tuple[str, ...]:
        """What `plaintext` names."""
        return _listed(self.plaintext)

    @property
    def allowed_callers(self) -> tuple[str, ...]:
        """The names in `tls_callers`."""
        return _listed(self.tls_callers)

    def peer_addresses(self) -> Mapping[str, str]:
        """Peer name to address, from every non-empty field `<peer>_addr`."""
        fields = ((name, getattr(self, name)) for name in type(self).model_fields)
        return {
            name.removesuffix(_ADDRESS_SUFFIX): value
            for name, value in fields
            if name.endswith(_ADDRESS_SUFFIX) and value
        }


def _listed(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


def load(settings: type[T], **overrides: Any) -> T:
    """The settings from the environment; a bad one is named on stderr and the process exits with status 1 (G-10)."""
    try:
        return settings(**overrides)
    except ValidationError as error:
        exit_for("\n".join(_complaints(settings, error)))
    except SettingsError as error:
        # A setting of several parts is JSON, and is read before it is validated. Only the text tells which one it was.
        name = next((name for name in settings.model_fields if f'"{name}"' in str(error)), "")
        exit_for(f"{_set_variable(name, settings.model_fields[name])}: not JSON" if name else str(error))


def exit_for(complaint: str) -> NoReturn:
    """Print why the process cannot start, without a traceback, and exit with status 1 (G-08, G-10)."""
    print(without_secrets(complaint), file=sys.stderr)
    raise SystemExit(1)


def _complaints(settings: type[Settings], error: ValidationError) -> Iterator[str]:
    """One line for each bad setting. Pydantic names a field by its first variable, or by its own name if given so."""
    for item in error.errors(include_url=False):
        what = item["msg"].removeprefix("Value error, ")
        place = str(item["loc"][0]) if item["loc"] else ""
        name = place.lower().removeprefix(PREFIX.lower())
        field = settings.model_fields.get(name)
        if field is None:
            yield f"{place}: {what}" if place else what
            continue
        variable = _set_variable(name, field)
        if item["type"] == "missing":
            yield f"{variable} is not set"
        elif _is_secret(field):
            yield f"{variable}: {what}"
        else:
            yield f"{variable}: {what} (got {shortened(without_secrets(repr(item['input'])))})"


def _set_variable(name: str, field: FieldInfo) -> str:
    """The variable that a setting is read from now, or would be."""
    choices = variables(name, field)
    return next((choice for choice in choices if os.environ.get(choice)), choices[-1])


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


def settings_table(settings: type[Settings]) -> list[SettingRow]:
    """Every setting of a class, in order of declaration; defaults as they would stand in the environment.

    Raises TypeError for a setting without a docstring.
    """
    docs = _docstrings(settings)
    if undocumented := [name for name in settings.model_fields if name not in docs]:
        raise TypeError(f"{settings.__name__}.{undocumented[0]} has no docstring")
    return [
        SettingRow(name, variables(name, field), _default(field), docs[name], _is_secret(field))
        for name, field in settings.model_fields.items()
    ]


def _docstrings(settings: type[Settings]) -> dict[str, str]:
    """The docstrings under the fields, on one line. Only the source has them, and a process that starts reads none."""
    found: dict[str, str] = {}
    for each in reversed(settings.__mro__):
        if not issubclass(each, Settings):
            continue
        (declared,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        for field, text in pairwise(declared.body if isinstance(declared, ast.ClassDef) else ()):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(doc))):
                    found[name] = " ".join(doc.split())
    return found


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "(required)"
    value = field.get_default(call_default_factory=True, validated_data={})
    return "" if value is None or isinstance(value, SecretStr) else str(value)


def settings_markdown(settings: type[Settings]) -> str:
    """The settings table for a README."""
    rows = settings_table(settings)
    lines = [
        f"| {', '.join(f'`{v}`' for v in row.variables)} | {f'`{row.default}`' if row.default else ''} | {row.doc} |"
        for row in rows
    ]
    return "\n".join(["| variable | default | meaning |", "|---|---|---|", *lines])
