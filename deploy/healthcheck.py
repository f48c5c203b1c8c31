"""Query the gRPC health of the service in this container; the exit status is 0 if it is SERVING.

This script is for engines without gRPC probes. Each start of Python and grpc costs most of a second of CPU, so
Kubernetes uses its own gRPC probes instead.
"""

import os
import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

TIMEOUT_SECONDS = 5


def check_status(address: str) -> str:
    """Return the name of the health status of the server at `address`. Raises `grpc.RpcError` without a response."""
    with grpc.insecure_channel(address) as channel:
        response = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_SECONDS)
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(response.status))


def main() -> int:
    """Return 0 if the server of HANSEI_HEALTH_ADDRESS, else of HANSEI_LISTEN_ADDRESS, is SERVING."""
    address = os.environ.get("HANSEI_HEALTH_ADDRESS") or os.environ.get("HANSEI_LISTEN_ADDRESS", "")
    port = address.rpartition(":")[2]
    if not port:
        print("neither HANSEI_HEALTH_ADDRESS nor HANSEI_LISTEN_ADDRESS is set", file=sys.stderr)
        return 1
    try:
        health = check_status(f"127.0.0.1:{port}")
    except grpc.RpcError as error:
        print(error.code().name, file=sys.stderr)
        return 1
    print(health)
    return 0 if health == "SERVING" else 1


if __name__ == "__main__":
    sys.exit(main())
