"""How does a server live and die?"""
