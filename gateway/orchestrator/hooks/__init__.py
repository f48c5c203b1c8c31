"""Hooks of coding agents: what the playbook says at the start of a session, at a prompt and before a tool call."""
