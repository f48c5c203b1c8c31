"""Say that a query matches nothing."""

from __future__ import annotations

from hansei.search.v1.search_service_pb2 import SearchResponse


def describe_no_match(response: SearchResponse) -> str:
    """Return why the results of a search do not match; empty if they may, or if there are none."""
    if not response.nothing_matched or not response.results:
        return ""
    if response.similarity_limit >= 1.0:
        return "Nothing matches: no bullet has a word of the query, whose script the embedding model does not know."
    highest = max(result.raw_cosine for result in response.results)
    return (
        f"Nothing matches: no bullet has a word of the query, and the highest similarity, {highest:.2f}, is below "
        f"{response.similarity_limit:.2f}."
    )
