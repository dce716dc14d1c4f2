"""Server processes: start, stop, ports, clean-up."""
