"""Every id that the contract allows reaches the method unchanged, over every endpoint."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.paths import decode_path
from gateway.http.problems import PROBLEM
from gateway.tests.scripted_http import BINDINGS, Peers, client_of, request_arguments

HOSTILE = [
    "a/b",
    "/",
    "//",
    "..",
    "../..",
    "%2F",
    "%252F",
    "%",
    "日本語/é",
    "a?b=c",
    "a#b",
    "a b",
    "a\\b",
    "{x}",
    "'\"<>",
    "\n",
]
CASES = [(binding, name) for binding in BINDINGS for name in binding.variables]
FREE = {
    "hansei.evidence.v1.ArchiveService.DeleteTrajectory": "trajectory_id",
    "hansei.evidence.v1.ArchiveService.GetTrajectory": "trajectory_id",
    "hansei.playbook.v1.PlaybookService.GetBulletHistory": "bullet_id",
    "hansei.validator.v1.LeaderboardService.GetBestSubmission": "execution_id",
    "hansei.validator.v1.LeaderboardService.GetRanking": "execution_id",
    "hansei.validator.v1.LeaderboardService.ListLeaderboardEntries": "execution_id",
}
"""Fields that the contract does not restrict; executions of the planner, datasets, keys and jobs have a shape."""


def encode(value: str) -> str:
    """Return a segment of a path, with nothing left in it that a client might resolve."""
    return quote(value, safe="").replace(".", "%2E")


@pytest.mark.parametrize("value", HOSTILE)
async def test_a_hostile_id_reaches_the_method_unchanged_or_is_refused(value: str) -> None:
    peers = Peers()
    async with client_of(peers) as client:
        for binding, name in CASES:
            peers.requests.clear()
            request = request_arguments(binding, **{name: encode(value)})
            response = await client.request(**request)
            if FREE.get(binding.method.full_name) == name:
                assert (response.status_code, getattr(peers.requests[0], name)) == (200, value)
            elif name == "number":
                assert (response.status_code, peers.requests) == (400, []), request
            else:
                status = 404 if name == "execution_id" else 400
                assert (response.status_code, response.headers["content-type"]) == (status, PROBLEM), request
                assert response.json()["violations"][0]["field"] == name
                assert peers.requests == []


async def test_a_slash_that_is_not_encoded_still_ends_a_segment() -> None:
    async with client_of(Peers()) as client:
        assert (await client.get("/v1/playbooks/d/bullets/a/b/history")).status_code == 404


async def test_an_encoded_letter_is_that_letter() -> None:
    peers = Peers()
    async with client_of(peers) as client:
        assert (await client.get("/v1/%70laybooks/%64")).status_code == 200
    assert peers.requests[0].dataset == "d"


@given(st.lists(st.text(min_size=1), min_size=1))
def test_a_routed_path_has_as_many_segments_for_any_id(segments: list[str]) -> None:
    sent = "/".join(quote(segment, safe="") for segment in segments)
    path = decode_path({"raw_path": f"/{sent}".encode(), "path": "/" + "/".join(segments)})
    assert path.count("/") == len(segments)
