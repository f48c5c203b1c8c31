"""Databases: SQLite files and PostgreSQL servers, opened alike by every service that keeps state."""
