"""Import the servers, which are a package of their own. Only this module does, and only when a command needs them."""

from __future__ import annotations

from types import ModuleType


class ServerNotInstalledError(ImportError):
    """A command needs the servers, and they are not installed."""


def load_server() -> ModuleType:
    """Return the module with all that the client uses of the servers.

    Raises:
        ServerNotInstalledError: the package of the servers is missing.
    """
    try:
        from allinone import commands
    except ModuleNotFoundError as error:
        raise ServerNotInstalledError(
            f"the servers of hansei are not installed ({error}): pip install 'hansei[server]'", name=error.name
        ) from error
    return commands
