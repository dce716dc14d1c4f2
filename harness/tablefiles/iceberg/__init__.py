"""What do Iceberg's own files say?"""
