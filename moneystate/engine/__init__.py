"""The event-time engine: order, lateness, buffer, timers, key groups, the plan of a batch and the commit protocol.

It imports only the standard library, does no I/O and reads no clock: times are passed in as numbers. What is processed
is up to a processor (`moneystate.engine.processor`). mypyc compiles it if a C compiler is installed
(`scripts/compile_core.py`). The same source also runs interpreted.
"""
