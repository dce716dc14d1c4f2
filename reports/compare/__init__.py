"""What does a person see of several contenders side by side?"""
