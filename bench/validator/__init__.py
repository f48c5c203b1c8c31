"""Measurements of the validator, beside its peers."""
