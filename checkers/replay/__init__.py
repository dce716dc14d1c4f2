"""Did every commit change exactly the rows that its operation means?"""
