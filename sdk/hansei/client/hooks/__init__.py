"""Hooks of coding agents: lessons at the start of a session and at each prompt, learning at its end.

The modules that `hansei hook` imports use only the standard library, and little of it: agents wait for its start.
"""
