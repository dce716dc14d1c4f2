"""What happened to one table, in commit order and in real time?"""
