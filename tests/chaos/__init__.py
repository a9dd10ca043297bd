"""`make chaos`: kills and restarts of the real processes, for longer than the tests do."""
