"""Event delivery: which endpoint gets which event."""
