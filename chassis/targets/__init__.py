"""Targets of lessons: predicates over the next tool call of an agent and the earlier events of its session."""
