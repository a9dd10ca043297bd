"""The event-time engine: order, lateness, buffer, timers, key groups, the plan of a batch and the commit protocol.

Standard library only, no I/O, no clock: time comes in as numbers. It knows nothing of what it processes; a processor
(`moneystate.engine.processor`) says that. Compiled with mypyc where a C compiler is there (`scripts/compile_core.py`);
the same source runs interpreted.
"""
