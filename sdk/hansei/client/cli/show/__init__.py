"""Views: how results look in a terminal. Text of playbooks and trajectories is never read as markup."""
