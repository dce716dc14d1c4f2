"""Which services does the user supply?"""
