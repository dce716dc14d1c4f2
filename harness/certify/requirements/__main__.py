"""Prints a table of docs/certify.md: what must hold, or with ``--how`` how it is asked and what to do."""

import sys

from harness.certify.requirements import document, how

if __name__ == "__main__":
    print(how() if "--how" in sys.argv else document(), end="")
