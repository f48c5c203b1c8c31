"""The chains: learn (reflect, then curate) and the workflow (load, search, generate).

The gateway has no domain of its own, so its chains speak the messages of the contracts (see docs/adr/002).
"""
