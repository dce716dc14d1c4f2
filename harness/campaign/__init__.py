"""How do many runs become one result?"""
