"""Chat and embedding models: one way to call them, whoever serves them."""
