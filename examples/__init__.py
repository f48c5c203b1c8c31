"""Example trajectories and the recorder that makes them."""
