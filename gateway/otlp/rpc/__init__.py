"""The OTLP services."""
