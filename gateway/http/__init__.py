"""The HTTP API of the gateway: the same methods as over gRPC, as JSON."""
