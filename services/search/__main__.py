"""Run search: `python -m services.search`."""

import chassis
from services.search.bootstrap import build
from services.search.settings import SearchSettings

if __name__ == "__main__":
    chassis.run(build, SearchSettings)
