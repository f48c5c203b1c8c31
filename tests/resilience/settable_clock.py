"""Run a module with a clock that can be set: SIGUSR1 puts it an hour forward, SIGUSR2 an hour back.

The variable `MODULE` names the module. What the signals set is what Python reads of the machine's clock (`time.time`,
`datetime.now`, ...), also in modules that were imported before. The monotonic clock goes on, as when somebody sets the
clock of a machine.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import grpc.aio
import time_machine

HOUR = timedelta(hours=1)
MODULE = "SETTABLE_CLOCK_MODULE"
"""The variable with the name of the module."""


def main() -> None:
    """Replace the clock, and run the module."""
    # gRPC passes deadlines to its C core, which reads the clock of the machine: both must use the same clock.
    for module in [imported for name, imported in sys.modules.items() if name.partition(".")[0] == grpc.__name__]:
        if getattr(module, "time", None) is time:
            vars(module)["time"] = SimpleNamespace(**{**vars(time), "time": time_machine.escape_hatch.time.time})

    clock = time_machine.travel(datetime.now(UTC), tick=True).start()

    def shift_clock(by: timedelta) -> None:
        clock.shift(by)
        print(f"the clock was set to {datetime.now(UTC)}", file=sys.stderr, flush=True)

    signal.signal(signal.SIGUSR1, lambda *_: shift_clock(HOUR))
    signal.signal(signal.SIGUSR2, lambda *_: shift_clock(-HOUR))
    runpy.run_module(os.environ[MODULE], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
