"""Certify a catalog: ask a server what the specification of Iceberg's REST catalog and its clients rely on, and say what it answers wrongly."""
