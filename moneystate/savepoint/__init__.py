"""Savepoints: a job's whole state in a folder that any later job can start from (docs/savepoints.md)."""
