"""Savepoints: a job's complete state in a folder from which any later job can start (docs/savepoints.md)."""
