"""The outbox of trajectories: stored with each Learn, delivered to the archive of the evidence service later."""
