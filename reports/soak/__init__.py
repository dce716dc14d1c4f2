"""What do the page, the lines and the JUnit file of a night's soak show?"""
