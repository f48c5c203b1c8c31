"""Write playbooks into the files that agents read: skills, AGENTS.md, rules; take hand edits back as deltas."""
