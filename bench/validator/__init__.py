"""Measurements of the validator and its baselines."""
