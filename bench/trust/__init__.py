"""The effect of wrong labels on learning, and of distrusting them."""
