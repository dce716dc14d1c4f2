"""Where does a request end, and what does it ask?"""
