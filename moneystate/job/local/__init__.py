"""Runs jobs in one process, without Spark: the same plans, reading, engine and sink, with the state in a local RocksDB.

`moneystate run --local` uses it, and tests of outcomes. A checkpoint belongs to one of both ways to run.
"""
