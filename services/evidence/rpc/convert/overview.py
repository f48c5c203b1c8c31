"""Conversion of the overview to messages."""

from __future__ import annotations

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
        counts=pb.TrajectoryCounts(
            trajectories=counts.trajectories,
            succeeded=counts.succeeded,
            failed=counts.failed,
            with_errors=counts.with_errors,
            with_repeated_errors=counts.with_repeated_errors,
            steps=counts.steps,
        ),
        usage=pb.UsageTotals(
            trajectories_with_tokens=counts.with_tokens,
            input_tokens=counts.input_tokens,
            cached_input_tokens=counts.cached_input_tokens,
            output_tokens=counts.output_tokens,
            trajectories_with_cost=counts.with_cost,
            cost_usd=counts.cost_usd,
        ),
        success_rate=_encode_share(estimate_share(counts.succeeded, counts.succeeded + counts.failed)),
        repeated_error_rate=_encode_share(estimate_share(counts.with_repeated_errors, counts.trajectories)),
    )


def _encode_share(estimate: ShareEstimate) -> pb.ShareEstimate:
    return pb.ShareEstimate(
        share=estimate.share, lower=estimate.lower, upper=estimate.upper, trajectories=estimate.total
    )
