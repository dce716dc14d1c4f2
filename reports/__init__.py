"""What a person sees: the HTML page and the last lines on the terminal."""
