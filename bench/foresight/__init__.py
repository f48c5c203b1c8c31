"""What wrong labels do to a playbook learned offline."""
