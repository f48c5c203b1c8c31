"""Checks of the gateway and of each service behind it, with a call that changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from chassis.deadlines import time_limit
from chassis.errors import BadSetting, HanseiError, Unauthenticated
from chassis.secrets import remove_secrets
from hansei.client.cli.options import PEER_UNAVAILABLE

if TYPE_CHECKING:
    from hansei.client.client import Client

SECONDS = 5.0
SAMPLE_TRAJECTORY = b'{"id": "doctor", "query": "q", "status": "success", "generated_answer": "a", "steps": []}'
START_SERVER = "start it with `hansei up`, or name another with --addr"
SET_CREDENTIAL = "set HANSEI_TOKEN to an API key or token of this server; `hansei keys create` creates a key"
CORRECT_VARIABLE = "correct the variable that the message names"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check; `remedy` is empty if there is no error."""

    name: str
    finding: str
    remedy: str = ""

    def without_secrets(self) -> CheckResult:
        """Return the result without secrets: a finding quotes the message about a wrong setting."""
        return replace(self, finding=remove_secrets(self.finding))


def check_server(address: str | None) -> Iterator[CheckResult]:
    """Check the gateway and each service behind it with a call that changes nothing."""
    from hansei.client.client import Client

    try:
        client = Client(address)
    except BadSetting as error:
        yield CheckResult("server: settings", str(error), CORRECT_VARIABLE)
        return
    with client:
        yield from check_services(client)


def check_services(client: Client) -> Iterator[CheckResult]:
    """Check each service with one call; if the gateway itself does not answer or refuses the credential, stop."""
    for name, call in _CALLS.items():
        try:
            with time_limit(SECONDS):
                fact = call(client)
        except HanseiError as error:
            is_gateway = isinstance(error, Unauthenticated) or (
                error.reason == PEER_UNAVAILABLE and client.address in error.message
            )
            check = f"server: {'gateway' if is_gateway else name}"
            yield CheckResult(check, error.message, _suggest_remedy(name, error, is_gateway))
            if is_gateway:
                return
        else:
            yield CheckResult(f"server: {name}", f"answers; {fact}")


def _suggest_remedy(name: str, error: HanseiError, is_gateway: bool) -> str:
    if isinstance(error, Unauthenticated):
        return SET_CREDENTIAL
    if error.reason == PEER_UNAVAILABLE:
        return START_SERVER if is_gateway else f"start the {name}, or correct {name.upper()}_ADDR of the gateway"
    return f"read the log of the {name}: {error.reason}"


def _call_search(client: Client) -> str:
    status = client.index.get_status(dataset="doctor", allow_missing=True)
    return f"embedding model {status.embedding_model}, tokenizer {status.tokenizer}"


def _call_reflector(client: Client) -> str:
    response = client.reflector.parse_trajectories(content=SAMPLE_TRAJECTORY, dataset="doctor")
    return f"parsed {len(response.trajectories)} trajectory"


_CALLS: dict[str, Callable[[Client], str]] = {
    "curator": lambda client: f"{len(client.playbooks.list_datasets().datasets)} datasets",
    "search": _call_search,
    "reflector": _call_reflector,
    "planner": lambda client: f"thresholds {client.planner.get_thresholds().mode}",
    "validator": lambda client: f"{len(client.validator.list_report_kinds().kinds)} registered kinds",
    "evidence": lambda client: f"{client.evidence.get_trials(dataset='doctor').sessions} measured sessions of doctor",
}
