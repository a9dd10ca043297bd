"""Reconciliation: checks that every announced event really exists (docs/reconciliation.md)."""
