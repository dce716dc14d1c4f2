"""How does one run go?"""
