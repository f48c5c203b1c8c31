"""Run the gateway: `python -m gateway`."""

import chassis
from gateway.bootstrap import build
from gateway.settings import GatewaySettings

if __name__ == "__main__":
    chassis.run(build, GatewaySettings)
