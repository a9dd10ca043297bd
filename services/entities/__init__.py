"""Entities that are created, patched and deleted, merged field by field by time (docs/entities.md)."""
