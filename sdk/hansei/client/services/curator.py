"""The services of `hansei.curator.v1`."""

from __future__ import annotations

from hansei.client.calls import M, ServiceClient, bind_unary
from hansei.curator.v1 import curator_service_pb2 as curator


class CuratorServiceClient(ServiceClient[M]):
    """Turn reflections into edits of a playbook."""

    curate = bind_unary(curator.CurateRequest, curator.CurateResponse)
    prepare_curation = bind_unary(curator.PrepareCurationRequest, curator.PrepareCurationResponse)
    get_curation = bind_unary(curator.GetCurationRequest, curator.GetCurationResponse)
