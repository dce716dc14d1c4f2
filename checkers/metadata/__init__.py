"""Is every metadata version what the table specification demands?"""
