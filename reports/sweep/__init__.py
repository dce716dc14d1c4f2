"""What does a person see of a sweep: curves, and one commit taken apart?"""
