"""Plans of hansei as tasks of an A2A agent, for other agents.

The server is a client: it calls the public API by `hansei.client`, and stores nothing. A task is an execution of the
planner, so tasks survive a restart of both.
"""

from hansei.client.extras import import_from_extra

with import_from_extra("a2a", "a2a", "sse_starlette"):
    import a2a as a2a
    import sse_starlette as sse_starlette
