"""Alembic's script location, shared by all services: each brings only its `versions`."""
