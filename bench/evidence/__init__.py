"""Simulations of trials with the functions that the evidence service measures with."""
