"""A scripted agent, the real tools it works with, and the tasks it is given."""
