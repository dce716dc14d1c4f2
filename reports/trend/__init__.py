"""What does the page of a trend show?"""
