"""How is each catalog reached?"""
