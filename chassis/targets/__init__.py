"""Targets of lessons: predicates over the next tool call of an agent and what came before it in its session."""
