"""What a user is told of an error, and the exit code it ends the command with."""

from __future__ import annotations

from chassis.errors import DeadlineExceeded, HanseiError, InvalidArgument, OutOfRange, Unavailable
from chassis.logging import without_secrets
from chassis.settings import BadSetting
from hansei.client.cli.options import Exit
from hansei.client.cli.output import say
from hansei.client.server import ServerNotInstalledError

PEER_UNAVAILABLE = "PEER_UNAVAILABLE"


def exit_code_of(failure: Exception) -> Exit | None:
    """Tell the user of an error of hansei on stderr; None for any other, which is a bug and keeps its traceback."""
    if isinstance(failure, BadSetting):
        say(f"Error: {without_secrets(str(failure))}")
        return Exit.FAILED
    if isinstance(failure, ServerNotInstalledError):
        say(f"Error: {failure}")
        return Exit.USAGE
    if not isinstance(failure, HanseiError):
        return None
    for line in complaint(failure):
        say(line)
    return _code(failure)


def complaint(error: HanseiError) -> list[str]:
    """The lines for stderr: what is wrong, where, and a way out where there is one."""
    lines = [f"Error: {error.message} [{error.reason}]"]
    lines += [f"  {violation.field}: {violation.description}" for violation in error.violations]
    if error.reason == PEER_UNAVAILABLE:
        lines.append("  Is it running? Start it with `hansei up`, name another with --addr, or use --local.")
    return lines


def _code(error: HanseiError) -> Exit:
    if isinstance(error, InvalidArgument | OutOfRange):
        return Exit.USAGE
    if isinstance(error, Unavailable | DeadlineExceeded):
        return Exit.UNREACHABLE
    return Exit.FAILED
