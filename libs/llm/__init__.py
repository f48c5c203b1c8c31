"""Chat models and model providers behind one interface."""
