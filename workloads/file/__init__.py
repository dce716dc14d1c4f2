"""What may a file that people write say?"""
