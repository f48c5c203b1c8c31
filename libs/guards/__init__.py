"""Mine the targets of guards from recorded trajectories, and test them on recorded trajectories."""
