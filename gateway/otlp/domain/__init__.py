"""Rules of traces that arrive by OTLP: datasets, ids, completeness."""
