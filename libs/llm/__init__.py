"""Chat models, and the providers of all models: one way to call them, whoever serves them."""
