"""The public API: it chains the services, and owns no rule of theirs."""
