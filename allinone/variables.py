"""The variables that set something in a stack of all services."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from allinone.bootstrap import StackSettings
from allinone.parts import list_service_names, load_settings_class
from chassis.errors import BadSetting, shorten
from chassis.settings import DATA_DIRECTORY_VARIABLE, PREFIX, Settings, list_leaf_fields, list_variables
from gateway.contract import load_contract
from libs.llm.providers import PROVIDERS
from libs.prompts.settings import PromptBuilderSettings
from services.planner.config import GraceConfig


def refuse_unknown_variables(names: Iterable[str]) -> None:
    """Raise BadSetting, which names the nearest setting, for variables that set nothing in a stack of all services."""
    variables = _list_known_variables()
    unknown = [name for name in names if name not in variables]
    if unknown:
        raise BadSetting("\n".join(_describe_unknown(name, variables) for name in unknown))


def _describe_unknown(name: str, variables: Iterable[str]) -> str:
    near = get_close_matches(name.upper(), sorted(variables), n=1)
    remedy = f"the nearest is {near[0]}" if near else "set variables of other programs in the environment"
    return f"{shorten(name)} is not the name of a setting; {remedy}"


def _list_known_variables() -> set[str]:
    """Return the variables of all settings, of addresses of services, and of the libraries of model providers."""
    classes: list[type[Settings]] = [load_settings_class(name) for name in list_service_names()]
    classes += [StackSettings, GraceConfig, PromptBuilderSettings]
    addresses = [f"{name.upper()}_ADDR" for name in load_contract().peers]
    return {
        DATA_DIRECTORY_VARIABLE,
        *addresses,
        *(PREFIX + address for address in addresses),
        *(variable for provider in PROVIDERS.values() for variable in provider.library_variables),
        *(
            variable
            for settings in classes
            for path, field in list_leaf_fields(settings)
            for variable in list_variables(settings, path, field)
        ),
    }
