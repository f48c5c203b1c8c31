"""Run every service in one process: `python -m allinone`."""

import chassis
from allinone.bootstrap import StackSettings, build

if __name__ == "__main__":
    chassis.run(build, StackSettings)
