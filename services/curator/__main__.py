"""Run the curator: `python -m services.curator`."""

import chassis
from services.curator.bootstrap import build
from services.curator.settings import CuratorSettings

if __name__ == "__main__":
    chassis.run(build, CuratorSettings)
