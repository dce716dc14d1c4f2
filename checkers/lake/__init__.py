"""What is kept of every run: the tables of the lake, and a run as rows of them."""
