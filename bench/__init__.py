"""Measurements: ratios against a baseline or a floor within one run, because machines are shared."""
