"""Every service in one process, on one port, as `hansei up` runs them."""
