"""What goes wrong: the proxies between writers and services, and the gate that orders two commits."""
