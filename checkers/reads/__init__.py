"""Did every read return a committed state that was recent enough?"""
