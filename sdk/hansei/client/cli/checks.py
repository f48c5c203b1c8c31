"""What `hansei doctor` looks at. Each check says what it found and, where something is wrong, what to do about it."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chassis.deadlines import time_limit
from chassis.errors import HanseiError, Unavailable
from chassis.logging import without_secrets
from chassis.settings import BadSetting, ServiceSettings, load, settings_table
from hansei.client.cli.embedded import provider
from hansei.client.cli.failures import PEER_UNAVAILABLE
from hansei.client.local import environment
from hansei.client.server import ServerNotInstalledError, server

if TYPE_CHECKING:
    from hansei.client.client import Client

SECONDS = 5.0
A_RUN = b'{"id": "doctor", "query": "q", "status": "success", "generated_answer": "a", "steps": []}'
DATABASES = "_database_url"
"""How the settings end that name a database."""
BUILT_IN = ("offline", "minilm", "hashing")
START_ONE = "start it with `hansei up`, or name another with --addr"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; `remedy` is what to do about it, empty when all is well."""

    name: str
    found: str
    remedy: str = ""

    def without_secrets(self) -> Finding:
        """The finding as it may be shown: what is wrong with a setting is said in its own words."""
        return replace(self, found=without_secrets(self.found))


def check_machine() -> Iterator[Finding]:
    """What `hansei up` would find here: its settings, the key of its model, the folders it writes to."""
    try:
        classes = server().settings_classes()
    except ServerNotInstalledError as error:
        yield Finding("hansei up", f"is not checked: {error}")
        return
    for name, settings_class in classes.items():
        settings = loaded(settings_class)
        if isinstance(settings, str):
            yield Finding(f"{name}: settings", settings, "correct the variable that is named")
            continue
        yield Finding(f"{name}: settings", "read from the environment")
        yield from _key(name, settings)
        yield from _folders(name, settings)
        yield from _databases(name, settings)


def loaded(settings_class: type[ServiceSettings]) -> ServiceSettings | str:
    """The settings that `hansei up` would have, or the complaint with which a service would refuse to start."""
    complaint = io.StringIO()
    try:
        with redirect_stderr(complaint), environment({"HANSEI_LLM_PROVIDER": provider()}):
            return load(settings_class)
    except SystemExit:
        return complaint.getvalue().strip()


def _key(name: str, settings: Any) -> Iterator[Finding]:
    """The key of the model, for a service that calls one: a chat model, or of search the embedder."""
    if not hasattr(settings, "key_of"):
        return
    chosen = getattr(settings, "embedding_provider", "") or settings.llm_provider
    if chosen in BUILT_IN:
        yield Finding(f"{name}: model", f"{chosen}: built in, needs no key")
        return
    try:
        settings.key_of(chosen)
    except BadSetting as error:
        wrong, _, remedy = str(error).partition("\n")
        yield Finding(f"{name}: model", wrong, remedy or "correct the variable that is named")
    else:
        yield Finding(f"{name}: model", f"{chosen}, and its key is set if it needs one")


def _folders(name: str, settings: ServiceSettings) -> Iterator[Finding]:
    """The files and folders of data, as far as they are local."""
    for row in settings_table(type(settings)):
        value = str(getattr(settings, row.name))
        if row.default.startswith("data/") and "://" not in value:
            remedy = "" if _can_be_written(Path(value).absolute()) else f"set {row.variables[-1]} to a place that is"
            yield Finding(f"{name}: {row.name}", f"{value} is {'not ' if remedy else ''}writable", remedy)


def _databases(name: str, settings: ServiceSettings) -> Iterator[Finding]:
    """The databases that are servers, and whether they let us in."""
    for row in settings_table(type(settings)):
        value = str(getattr(settings, row.name))
        if row.name.endswith(DATABASES) and "://" in value and not value.startswith("sqlite"):
            yield _entered(f"{name}: {row.name}", value, row.variables[-1])


def _entered(check: str, place: str, variable: str) -> Finding:
    try:
        return Finding(check, f"{server().connect_database(place, variable)} answers")
    except BadSetting as error:
        return Finding(check, str(error), "correct the variable that is named")
    except Unavailable as error:
        return Finding(check, error.message, f"start it, or correct {variable}")


def _can_be_written(path: Path) -> bool:
    """Whether a file or folder may be written, or made where it does not exist yet."""
    there = next(each for each in (path, *path.parents) if each.exists())
    return os.access(there, os.W_OK) and (there == path or there.is_dir())


def check_server(address: str | None) -> Iterator[Finding]:
    """The gateway, and each service behind it, by a call that changes nothing."""
    from hansei.client.client import Client

    try:
        client = Client(address)
    except BadSetting as error:
        yield Finding("server: settings", str(error), "correct the variable that is named")
        return
    with client:
        for name, call in _CALLS.items():
            try:
                with time_limit(SECONDS):
                    yield Finding(f"server: {name}", call(client))
            except HanseiError as error:
                yield Finding(f"server: {name}", error.message, _remedy(name, error, client.address))
                if error.reason == PEER_UNAVAILABLE and client.address in error.message:
                    return


def _remedy(name: str, error: HanseiError, address: str) -> str:
    if error.reason == PEER_UNAVAILABLE:
        is_gateway = address in error.message
        return START_ONE if is_gateway else f"start the {name}, or correct {name.upper()}_ADDR of the gateway"
    return f"look into the log of the {name}: {error.reason}"


def _curator(client: Client) -> str:
    return f"answers; {len(client.playbooks.list_datasets().datasets)} datasets"


def _search(client: Client) -> str:
    status = client.index.get_status(dataset="doctor")
    return f"answers; embeddings by {status.embedding_model}, tokeniser {status.tokenizer}"


def _reflector(client: Client) -> str:
    return f"answers; read {len(client.reflector.parse_trajectories(content=A_RUN, dataset='doctor').trajectories)} run"


def _planner(client: Client) -> str:
    return f"answers; thresholds {client.planner.get_thresholds().mode}"


def _validator(client: Client) -> str:
    return f"answers; {len(client.validator.list_report_kinds().kinds)} registered kinds"


_CALLS: dict[str, Callable[[Client], str]] = {
    "curator": _curator,
    "search": _search,
    "reflector": _reflector,
    "planner": _planner,
    "validator": _validator,
}
