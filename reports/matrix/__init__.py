"""What does a person see of the conflict matrix?"""
