"""The servers that every stack has, whatever its catalog: object store, database, Spark."""
