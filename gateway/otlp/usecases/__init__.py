"""Receive traces, and learn those that have ended."""
