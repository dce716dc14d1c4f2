"""What did a run leave behind?"""
