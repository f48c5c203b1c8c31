"""Mine the targets of guards from recorded runs, and test them on recorded runs."""
