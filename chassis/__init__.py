"""How any service runs: lifecycle, server, channels, deadlines, admission, errors, health, telemetry, settings.

Nothing here knows a service or a noun of the domain.
"""
