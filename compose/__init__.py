"""Where does it run? Every service, how each catalog is reached, and the set-up."""
