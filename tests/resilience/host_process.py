"""Run a module on a host of a network: `python -m tests.resilience.host_process NAMESPACE MODULE`."""

from __future__ import annotations

import ctypes
import runpy
import sys

CLONE_NEWNET = 0x40000000


def main() -> None:
    """Enter the network namespace of the file NAMESPACE, as `nsenter` does, and run the module."""
    namespace, module = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    with open(namespace, encoding="utf-8") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
    sys.argv[1:] = []
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
