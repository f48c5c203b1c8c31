"""Access control of the gateway: API keys, tokens, tenants, limits and audit records."""
