"""Import the servers, which are a package of their own: this module alone does, and only when it is asked to."""

from __future__ import annotations

from types import ModuleType


class ServerNotInstalledError(ImportError):
    """Something that runs in the servers' code was asked for, and the servers are not installed."""


def server() -> ModuleType:
    """Return the module with all that the client uses of the servers. Raises ServerNotInstalledError."""
    try:
        from allinone import commands
    except ModuleNotFoundError as error:
        raise ServerNotInstalledError(
            f"the servers of hansei are not installed ({error}): pip install 'hansei[server]'", name=error.name
        ) from error
    return commands
