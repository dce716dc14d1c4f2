"""What may a file that others wrote say?"""
