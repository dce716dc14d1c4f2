"""What can go wrong? Faults, the proxies that inject them, and the processes that they strike."""
