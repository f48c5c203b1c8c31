"""The services of `hansei.gateway.v1`."""

from __future__ import annotations

from hansei.client.calls import M, ServiceClient, bind_client_stream, bind_server_stream, bind_unary
from hansei.gateway.v1 import access_service_pb2 as access
from hansei.gateway.v1 import bulk_service_pb2 as bulk
from hansei.gateway.v1 import gateway_service_pb2 as gateway
from hansei.gateway.v1 import rounds_service_pb2 as rounds


class GatewayServiceClient(ServiceClient[M]):
    """Learn from a trajectory, answer a query."""

    learn = bind_unary(gateway.LearnRequest, gateway.LearnResponse)
    learn_with_progress = bind_server_stream(gateway.LearnWithProgressRequest, gateway.LearnWithProgressResponse)
    run_workflow = bind_unary(gateway.RunWorkflowRequest, gateway.RunWorkflowResponse)
    answer = bind_unary(gateway.AnswerRequest, gateway.AnswerResponse)


class AccessServiceClient(ServiceClient[M]):
    """Identify the caller, manage API keys, list audit records."""

    who_am_i = bind_unary(access.WhoAmIRequest, access.WhoAmIResponse)
    create_key = bind_unary(access.CreateKeyRequest, access.CreateKeyResponse)
    list_keys = bind_unary(access.ListKeysRequest, access.ListKeysResponse)
    revoke_key = bind_unary(access.RevokeKeyRequest, access.RevokeKeyResponse)
    list_audit_records = bind_unary(access.ListAuditRecordsRequest, access.ListAuditRecordsResponse)


class RoundsServiceClient(ServiceClient[M]):
    """Run teams that submit in rounds, and score and judge their submissions."""

    run_rounds = bind_server_stream(rounds.RunRoundsRequest, rounds.RunRoundsResponse)


class BulkServiceClient(ServiceClient[M]):
    """Submit and follow jobs: many trajectories that the server learns in the background."""

    submit = bind_client_stream(bulk.SubmitTrajectoriesRequest, bulk.SubmitTrajectoriesResponse)
    get = bind_unary(bulk.GetJobRequest, bulk.GetJobResponse)
    list = bind_unary(bulk.ListJobsRequest, bulk.ListJobsResponse)
    watch = bind_server_stream(bulk.WatchJobRequest, bulk.WatchJobResponse)
    cancel = bind_unary(bulk.CancelJobRequest, bulk.CancelJobResponse)
    list_dead_letters = bind_unary(bulk.ListDeadLettersRequest, bulk.ListDeadLettersResponse)
    retry_dead_letters = bind_unary(bulk.RetryDeadLettersRequest, bulk.RetryDeadLettersResponse)
