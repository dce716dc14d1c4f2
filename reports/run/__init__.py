"""What does a person see of one run?"""
