"""Which faults are there, and when do they strike?"""
