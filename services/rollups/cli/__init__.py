"""Commands of rollups."""
