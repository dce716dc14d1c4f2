"""What runs beside every catalog?"""
