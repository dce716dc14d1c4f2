"""Which engines write, and what do they promise?"""
