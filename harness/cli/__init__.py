"""What can be typed?"""
