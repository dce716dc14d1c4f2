"""What does Iceberg's code say of two concurrent operations, and what was measured?"""
