"""What the client costs over the bare generated stub."""
