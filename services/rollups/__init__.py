"""Rollups: tiers of aggregates of measurements (docs/rollups.md)."""
