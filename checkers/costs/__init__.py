"""What did concurrency cost?"""
