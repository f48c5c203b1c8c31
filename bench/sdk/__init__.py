"""Measure the cost of the client compared with the bare generated stub."""
