"""Conversion of the overview to messages."""

from __future__ import annotations

from dataclasses import asdict

from hansei.evidence.v1 import overview_service_pb2 as pb
from services.evidence.domain.overview import Overview, ShareEstimate, TrajectoryCounts, estimate_share


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
        counts=pb.TrajectoryCounts(**asdict(counts)),
        success_rate=_encode_share(estimate_share(counts.succeeded, counts.succeeded + counts.failed)),
        repeated_error_rate=_encode_share(estimate_share(counts.with_repeated_errors, counts.trajectories)),
    )


def _encode_share(estimate: ShareEstimate) -> pb.ShareEstimate:
    return pb.ShareEstimate(
        share=estimate.share, lower=estimate.lower, upper=estimate.upper, trajectories=estimate.total
    )
