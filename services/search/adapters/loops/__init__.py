"""The loops of a query, compiled by numba where it is installed; `load_loops` returns them."""

from services.search.adapters.loops.loader import LoopsLoader, load_loops

__all__ = ["LoopsLoader", "load_loops"]
