"""Embedding models, the tokenisation for them, and one cache of their vectors; for every service that embeds."""
