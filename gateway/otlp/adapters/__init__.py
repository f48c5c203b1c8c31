"""Database and metrics of traces."""
