"""What the gateway reaches: its peers."""
