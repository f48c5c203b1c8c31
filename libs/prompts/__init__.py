"""Prompts: templates with placeholders, filled in one pass."""
