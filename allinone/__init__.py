"""Every service in one process, on one port: what a fresh machine runs."""
