"""State from history: archives of topics, and a batch job that takes them through the engine into a savepoint
(docs/bootstrap.md)."""
