"""What do Delta's own files say?"""
