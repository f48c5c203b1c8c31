"""Traces in the gateway's database."""
