"""What results look like to people. Text of playbooks and runs is shown as it is, never read as markup."""
