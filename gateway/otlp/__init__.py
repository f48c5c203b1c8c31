"""Traces that arrive by OTLP: stored until their root has ended, then learned as jobs."""
