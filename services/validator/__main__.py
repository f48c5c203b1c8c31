"""Runs the validator: `python -m services.validator`."""

import chassis
from services.validator.bootstrap import build
from services.validator.settings import ValidatorSettings

if __name__ == "__main__":
    chassis.run(build, ValidatorSettings)
