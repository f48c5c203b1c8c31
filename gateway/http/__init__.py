"""The HTTP face of the gateway: the same chains and peers as over gRPC, as JSON."""
