"""Run the evidence service: `python -m services.evidence`."""

import chassis
from services.evidence.bootstrap import build
from services.evidence.settings import EvidenceSettings

if __name__ == "__main__":
    chassis.run(build, EvidenceSettings)
