"""Measurements: ratios against a peer or a floor within one run, because machines are shared."""
