"""What if there is a history and no table? Histories of other systems."""
