"""The services of `hansei.playbook.v1`."""

from __future__ import annotations

from hansei.client.calls import M, ServiceClient, bind_client_stream, bind_server_stream, bind_unary
from hansei.playbook.v1 import playbook_service_pb2 as playbook


class PlaybookServiceClient(ServiceClient[M]):
    """Read and change playbooks: bullets, history, review, files, change feed."""

    get = bind_unary(playbook.GetPlaybookRequest, playbook.GetPlaybookResponse)
    list_bullets = bind_unary(playbook.ListBulletsRequest, playbook.ListBulletsResponse)
    list_datasets = bind_unary(playbook.ListDatasetsRequest, playbook.ListDatasetsResponse)
    get_dataset = bind_unary(playbook.GetDatasetRequest, playbook.GetDatasetResponse)
    delete_dataset = bind_unary(playbook.DeleteDatasetRequest, playbook.DeleteDatasetResponse)
    get_sections = bind_unary(playbook.GetSectionsRequest, playbook.GetSectionsResponse)
    apply_deltas = bind_unary(playbook.ApplyDeltasRequest, playbook.ApplyDeltasResponse)
    watch = bind_server_stream(playbook.WatchPlaybookRequest, playbook.WatchPlaybookResponse)
    get_history = bind_unary(playbook.GetHistoryRequest, playbook.GetHistoryResponse)
    get_bullet_history = bind_unary(playbook.GetBulletHistoryRequest, playbook.GetBulletHistoryResponse)
    diff_revisions = bind_unary(playbook.DiffRevisionsRequest, playbook.DiffRevisionsResponse)
    restore_revision = bind_unary(playbook.RestoreRevisionRequest, playbook.RestoreRevisionResponse)
    revoke_trajectory = bind_unary(playbook.RevokeTrajectoryRequest, playbook.RevokeTrajectoryResponse)
    get_policy = bind_unary(playbook.GetPolicyRequest, playbook.GetPolicyResponse)
    set_policy = bind_unary(playbook.SetPolicyRequest, playbook.SetPolicyResponse)
    list_pending_changes = bind_unary(playbook.ListPendingChangesRequest, playbook.ListPendingChangesResponse)
    decide_pending_changes = bind_unary(playbook.DecidePendingChangesRequest, playbook.DecidePendingChangesResponse)
    merge = bind_unary(playbook.MergePlaybooksRequest, playbook.MergePlaybooksResponse)
    import_chunks = bind_client_stream(playbook.ImportPlaybookRequest, playbook.ImportPlaybookResponse)
    export_chunks = bind_server_stream(playbook.ExportPlaybookRequest, playbook.ExportPlaybookResponse)
