"""What does an operation execute, and what does it mean?"""
