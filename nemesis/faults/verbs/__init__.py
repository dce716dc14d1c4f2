"""What can a fault do? One file a verb; each is found by itself (``nemesis.faults.registry``)."""
