"""Which runs together answer a bigger question?"""
