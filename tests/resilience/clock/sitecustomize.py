"""A clock that can be set while a process runs: SIGUSR1 puts it an hour forward, SIGUSR2 an hour back.

Python imports this by itself where this folder is on PYTHONPATH. What it sets is what Python reads of the machine's
clock (`time.time`, `datetime.now`, ...). The monotonic clock goes on, as when somebody sets the clock of a machine.
"""

from __future__ import annotations

import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import grpc.aio
import time_machine

HOUR = timedelta(hours=1)

# gRPC passes deadlines to its C core, which reads the clock of the machine: both must use the same clock.
for _module in [_grpc_module for name, _grpc_module in sys.modules.items() if name.partition(".")[0] == grpc.__name__]:
    if getattr(_module, "time", None) is time:
        vars(_module)["time"] = SimpleNamespace(**{**vars(time), "time": time_machine.escape_hatch.time.time})

_clock = time_machine.travel(datetime.now(UTC), tick=True).start()


def _put(by: timedelta) -> None:
    _clock.shift(by)
    print(f"the clock was put to {datetime.now(UTC)}", file=sys.stderr, flush=True)


signal.signal(signal.SIGUSR1, lambda *_: _put(HOUR))
signal.signal(signal.SIGUSR2, lambda *_: _put(-HOUR))
