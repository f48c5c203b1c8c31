"""Adapters of agent frameworks on one core, `hansei.client.adapters.agent_memory`: recall, check and report.

Each module needs its framework, which is an extra: `openai-agents`, `pydantic-ai`, `langgraph`, `smolagents`,
`claude-agent-sdk`, `google-adk`, `crewai`, `agent-framework`.
"""
