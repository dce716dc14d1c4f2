"""What does a browser of the store see besides the pages that lie in it?"""
