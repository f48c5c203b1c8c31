"""The sum of the usage that several services report."""

from __future__ import annotations

from hansei.playbook.v1.usage_pb2 import ModelUsage


def sum_usage(*usages: ModelUsage) -> ModelUsage:
    """Return the sum of each field."""
    fields = [field.name for field in ModelUsage.DESCRIPTOR.fields]
    return ModelUsage(**{name: sum(getattr(usage, name) for usage in usages) for name in fields})
