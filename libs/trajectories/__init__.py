"""Read the steps of trajectories: tool calls with their results, and the errors of tools."""
