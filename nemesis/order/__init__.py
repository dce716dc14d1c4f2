"""Who goes next?"""
