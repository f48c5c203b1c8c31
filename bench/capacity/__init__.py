"""Costs of the methods, a simulation of a cluster that has these costs, and a check of the simulation."""
