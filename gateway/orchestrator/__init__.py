"""The chains: learn (reflect, then curate) and the workflow (load, search, generate).

The gateway has no domain of its own, so its chains use the messages of the contract (docs/adr/002).
"""
