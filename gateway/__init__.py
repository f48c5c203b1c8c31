"""The public face: chains the services, owns no data and no rule."""
