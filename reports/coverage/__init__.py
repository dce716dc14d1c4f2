"""What does a person see of the interleavings that runs exercised?"""
