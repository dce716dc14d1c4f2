"""What does a person see? Pages, the last lines on the terminal, JUnit XML."""
