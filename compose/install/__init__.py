"""What must be on this machine?"""
