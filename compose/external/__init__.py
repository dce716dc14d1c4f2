"""Services that the user supplies: their addresses, and the check that they answer."""
