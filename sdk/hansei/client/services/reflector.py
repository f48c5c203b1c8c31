"""The services of `hansei.reflector.v1`."""

from __future__ import annotations

from hansei.client.calls import M, ServiceClient, bind_unary
from hansei.reflector.v1 import reflector_service_pb2 as reflector


class ReflectorServiceClient(ServiceClient[M]):
    """Parse trajectories and reflect on them."""

    reflect = bind_unary(reflector.ReflectRequest, reflector.ReflectResponse)
    parse_trajectories = bind_unary(reflector.ParseTrajectoriesRequest, reflector.ParseTrajectoriesResponse)
