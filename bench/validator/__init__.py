"""Measurements of the validator, beside its baselines."""
