"""Downloads, builds and finds the software that a run needs."""
