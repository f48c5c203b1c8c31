"""The checks of `hansei doctor` on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chassis.errors import Unavailable
from chassis.secrets import remove_secrets
from chassis.settings import DATA_FOLDER, BadSetting, ServiceSettings, list_settings, read_settings
from hansei.client.cli.embedded_stack import build_stack_variables, configure_logging
from hansei.client.cli.service_checks import CORRECT_VARIABLE, CheckResult
from hansei.client.local import set_environment
from hansei.client.server import ServerNotInstalledError, load_server

BUILT_IN = ("offline", "minilm", "hashing")


def check_machine() -> Iterator[CheckResult]:
    """Check the environment of `hansei up`: its settings, the key of its model, its folders and databases."""
    try:
        classes = load_server().load_settings_classes()
    except ServerNotInstalledError as error:
        yield CheckResult("hansei up", f"is not checked: {error}")
        return
    is_valid = True
    for name, settings_class in classes.items():
        settings = load_settings(settings_class)
        is_valid = is_valid and not isinstance(settings, str)
        if isinstance(settings, str):
            yield CheckResult(f"{name}: settings", settings, CORRECT_VARIABLE)
            continue
        yield CheckResult(f"{name}: settings", "read from the environment")
        yield from _check_model_key(name, settings)
        yield from _check_storage(name, settings)
    if is_valid:
        yield from _check_models()


def load_settings(settings_class: type[ServiceSettings]) -> ServiceSettings | str:
    """Return the settings that `hansei up` would have, or the message with which a service would refuse to start."""
    try:
        with set_environment(build_stack_variables()):
            return read_settings(settings_class)
    except BadSetting as error:
        return str(remove_secrets(str(error)))


def _check_model_key(name: str, settings: Any) -> Iterator[CheckResult]:
    """Check the key of the chat model or, for search, of the embedding model."""
    if not hasattr(settings, "get_key"):
        return
    provider = getattr(settings, "embedding_provider", "") or settings.llm_provider
    if provider in BUILT_IN:
        yield CheckResult(f"{name}: model", f"{provider}: built in, needs no key")
        return
    try:
        settings.get_key(provider)
    except BadSetting as error:
        message, _, remedy = str(error).partition("\n")
        yield CheckResult(f"{name}: model", message, remedy or CORRECT_VARIABLE)
    else:
        yield CheckResult(f"{name}: model", f"{provider}: the key is set, if one is needed")


def _check_models() -> Iterator[CheckResult]:
    """Check that each configured model answers one small call."""
    configure_logging("CRITICAL")  # the finding names the error; a log record would add its stack
    try:
        with set_environment(build_stack_variables()):
            probes = load_server().probe_models()
    except BadSetting as error:
        yield CheckResult("models", str(error), CORRECT_VARIABLE)
        return
    finally:
        configure_logging()
    for probe in probes:
        check, users = f"models: {probe.kind}", ", ".join(probe.users)
        if probe.error:
            remedy = probe.remedy or "correct the key, the address or the name of the model"
            yield CheckResult(check, f"{probe.provider} {probe.model}: {probe.error}", f"{remedy}; used by: {users}")
            continue
        price = "" if probe.provider == "bundled" else f", price {'' if probe.has_price else 'un'}known"
        answer = f"answers in {probe.seconds:.2f} s{price}; used by: {users}"
        yield CheckResult(check, f"{probe.provider} {probe.model} {answer}")


def _check_storage(name: str, settings: ServiceSettings) -> Iterator[CheckResult]:
    """Check that local data can be written, and that database servers accept a connection."""
    for row in list_settings(type(settings)):
        check, value, variable = f"{name}: {row.name}", str(getattr(settings, row.name)), row.variables[-1]
        if row.default.startswith(DATA_FOLDER) and "://" not in value:
            is_writable = _is_writable(Path(value).absolute())
            remedy = "" if is_writable else f"set {variable} to a writable path"
            yield CheckResult(check, f"{Path(value).absolute()} is {'' if is_writable else 'not '}writable", remedy)
        if row.name.endswith("_database_url") and "://" in value and not value.startswith("sqlite"):
            yield _check_database(check, value, variable)


def _check_database(check: str, url: str, variable: str) -> CheckResult:
    try:
        return CheckResult(check, f"{load_server().check_database(url, variable)} answers")
    except BadSetting as error:
        return CheckResult(check, str(error), CORRECT_VARIABLE)
    except Unavailable as error:
        return CheckResult(check, error.message, f"start it, or correct {variable}")


def _is_writable(path: Path) -> bool:
    """Return whether a file or folder can be written, or created if it does not exist."""
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    return os.access(existing, os.W_OK) and (existing == path or existing.is_dir())
