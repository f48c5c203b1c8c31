"""Run the planner as a process: ``python -m services.planner``."""

from chassis import run
from services.planner.bootstrap import build
from services.planner.settings import PlannerSettings

if __name__ == "__main__":
    run(build, PlannerSettings)
