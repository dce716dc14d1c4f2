"""How is anything drawn or worded?"""
