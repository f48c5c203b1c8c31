"""Lists that a writer moves while a reader looks them up."""

from __future__ import annotations

from typing import Any

import numpy as np

from services.search.domain.postings import Int32s, Postings


class MovedMeanwhile(np.ndarray[Any, np.dtype[np.int64]]):
    """A table of regions; after the first look into it the writer goes on."""

    writes: list[Any]

    def __array_finalize__(self, table: Any) -> None:
        self.writes = getattr(table, "writes", [])

    def take(self, *args: Any, **kwargs: Any) -> Any:
        found = np.asarray(self).take(*args, **kwargs)
        while self.writes:
            self.writes.pop()()
        return found


def terms(*numbers: int) -> Int32s:
    return np.array(numbers, np.int32)


def test_a_list_that_moves_while_it_is_looked_up_is_read_as_it_was() -> None:
    postings = Postings()
    first, other = postings.numbers(["first", "other"])
    postings.append(0, terms(first, other), terms(1, 1))
    seen = postings.view()
    table = seen.regions.view(MovedMeanwhile)
    table.writes = [lambda: postings.append(1, terms(first), terms(1))]
    lists = seen._replace(regions=table).numbered([first, other])
    assert not table.writes
    assert [lists.rows[places].tolist() for places in lists.places()] == [[0], [0]]
    (moved,) = postings.view().numbered([first]).places()
    assert postings.view().rows[moved].tolist() == [0, 1]
