"""What do all checkers together say of a run?"""
