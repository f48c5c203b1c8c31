"""Runs the reflector as a process: ``python -m services.reflector``."""

from chassis import run
from services.reflector.bootstrap import build
from services.reflector.settings import ReflectorSettings

if __name__ == "__main__":
    run(build, ReflectorSettings)
