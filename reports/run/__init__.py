"""The views of one run: page, summary, JUnit file."""
