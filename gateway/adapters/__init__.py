"""Adapters of the gateway to its peers."""
