"""What do the table's own files say?"""
