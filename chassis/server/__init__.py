"""How a process serves gRPC: what callers do not need. Of the modules beside it none imports it."""
