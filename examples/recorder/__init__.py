"""A scripted agent, its real tools, and its tasks."""
