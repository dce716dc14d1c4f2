"""The operations: the SQL that each kind executes, and its meaning."""
