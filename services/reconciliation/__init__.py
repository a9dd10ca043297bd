"""Is every event that was announced really there? (docs/reconciliation.md)"""
