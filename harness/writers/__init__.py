"""Who executes an operation?"""
