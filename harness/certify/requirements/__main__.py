"""Prints the table of docs/certify.md."""

from harness.certify.requirements import document

if __name__ == "__main__":
    print(document(), end="")
