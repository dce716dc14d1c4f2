"""Which interleavings were exercised?"""
