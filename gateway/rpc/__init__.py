"""The gRPC edge of the gateway."""
