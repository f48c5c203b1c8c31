"""Hooks of coding agents: lessons at the start of a session and at a prompt, and verdicts before a tool call."""
