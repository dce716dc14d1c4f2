"""What runs together?"""
