"""Bootstrap: archives of topics, and a batch job that runs history through the engine into a savepoint
(docs/bootstrap.md).
"""
