"""What can go wrong? Faults, the proxies that carry them out, and the processes that they strike."""
