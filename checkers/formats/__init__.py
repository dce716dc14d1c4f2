"""What does a table format add to what every table has?"""
