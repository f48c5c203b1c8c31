"""Conversion of the overview to messages."""

from __future__ import annotations

from chassis.server.messages import encode
from hansei.evidence.v1 import overview_service_pb2 as pb
from services.evidence.domain.overview import Overview, TrajectoryCounts, estimate_share


def encode_overview(overview: Overview) -> pb.GetOverviewResponse:
    """Return the response."""
    return pb.GetOverviewResponse(
        days=[
            pb.DayOverview(
                date=day.isoformat(),
                with_playbook=_encode_group(with_bullets),
                without_playbook=_encode_group(without_bullets),
            )
            for day, with_bullets, without_bullets in overview.days
        ],
        agents=[
            pb.AgentOverview(
                agent=agent,
                with_playbook=_encode_group(with_bullets),
                without_playbook=_encode_group(without_bullets),
            )
            for agent, with_bullets, without_bullets in overview.agents
        ],
        with_playbook=_encode_group(overview.with_bullets),
        without_playbook=_encode_group(overview.without_bullets),
        total=_encode_group(overview.with_bullets + overview.without_bullets),
    )


def _encode_group(counts: TrajectoryCounts) -> pb.GroupOverview:
    return pb.GroupOverview(
        counts=encode(counts, pb.TrajectoryCounts),
        usage=encode(
            counts, pb.UsageTotals, trajectories_with_tokens=counts.with_tokens, trajectories_with_cost=counts.with_cost
        ),
        success_rate=encode(estimate_share(counts.succeeded, counts.succeeded + counts.failed), pb.ShareEstimate),
        repeated_error_rate=encode(estimate_share(counts.with_repeated_errors, counts.trajectories), pb.ShareEstimate),
    )
