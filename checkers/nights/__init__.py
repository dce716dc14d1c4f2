"""What do the runs of a night, and of many nights, say together?"""
