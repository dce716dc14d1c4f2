"""Tests on a real cluster: Spark, MinIO, PostgreSQL and a catalog on this machine."""
