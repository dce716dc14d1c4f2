"""Which services of a stack run in containers, and from which images?"""
