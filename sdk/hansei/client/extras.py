"""Imports of packages that an extra installs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def import_from_extra(extra: str, *packages: str) -> Iterator[None]:
    """Import `packages` in the block. Raises `ModuleNotFoundError` with the `pip install` line if one is missing.

    Another missing module is an error of its own and passes unchanged.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = next((name for name in packages if f"{error.name}.".startswith(f"{name}.")), None)
        if missing is None:
            raise
        raise ModuleNotFoundError(
            f"{missing} is not installed: pip install 'hansei[{extra}]'", name=error.name
        ) from None
