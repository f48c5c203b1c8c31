"""Measures guards: repeated mistakes of a scripted coding agent, and the speed of checks."""
