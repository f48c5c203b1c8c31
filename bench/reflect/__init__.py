"""The costs of reflecting and learning without a model."""
