"""Report errors on stderr, and choose the exit code."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from chassis.errors import (
    BadSetting,
    DeadlineExceeded,
    HanseiError,
    InvalidArgument,
    NotFound,
    OutOfRange,
    Unauthenticated,
    Unavailable,
    shorten,
)
from chassis.secrets import remove_secrets
from hansei.client.cli.options import PEER_UNAVAILABLE, Exit
from hansei.client.cli.output import say
from hansei.client.server import ServerNotInstalledError


def report_error(failure: Exception, arguments: Sequence[str] = ()) -> Exit | None:
    """Report an error of hansei on stderr and return the exit code; None for a bug, which needs its traceback.

    `arguments` are those of the command.
    """
    if isinstance(failure, BadSetting):
        say(f"Error: {remove_secrets(str(failure))}")
        return Exit.FAILED
    if isinstance(failure, ServerNotInstalledError):
        say(f"Error: {failure}")
        return Exit.USAGE
    if isinstance(failure, OSError) and failure.filename is not None:
        say(f"Error: {shorten(str(failure.filename))}: {failure.strerror}")
        return Exit.USAGE
    if not isinstance(failure, HanseiError):
        return None
    for line in format_error_lines(failure, arguments):
        say(line)
    if isinstance(failure, InvalidArgument | OutOfRange):
        return Exit.USAGE
    if isinstance(failure, NotFound):
        return Exit.NOT_FOUND
    return Exit.UNREACHABLE if isinstance(failure, Unavailable | DeadlineExceeded) else Exit.FAILED


def format_error_lines(error: HanseiError, arguments: Sequence[str] = ()) -> list[str]:
    """Return the lines for stderr: the message, the wrong fields, and the remedy.

    A field that an option of the `arguments` sets, such as `policy.bullet_holdout`, has the name of the option.
    """
    typed = {argument.partition("=")[0] for argument in arguments}
    lines = [f"Error: {_name_option(error.message, error, typed)} [{error.reason}]"]
    broken_rules = (violation.format_line() for violation in error.violations)
    lines += [f"  {_name_option(line, error, typed)}" for line in broken_rules if line != error.message]
    if error.reason == PEER_UNAVAILABLE:
        lines.append("  Start a server with `hansei up`, name another one with --addr, or use --local.")
    if isinstance(error, Unauthenticated):
        lines.append("  Set HANSEI_TOKEN to an API key or token of this server; `hansei keys create` creates a key.")
    return lines


def _name_option(text: str, error: HanseiError, typed: Collection[str]) -> str:
    """Return the text of an error that begins with a wrong field, with the typed option in its place."""
    for violation in error.violations:
        field = violation.field
        option = f"--{field.rpartition('.')[2].replace('_', '-')}"
        if option in typed and text.startswith((f"{field}:", f"{field} ")):
            return option + text[len(field) :]
    return text
