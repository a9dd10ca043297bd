"""How evenly a topic's records would load a job: a sample of its keys, counted and simulated (docs/partitioning.md).

`loads` and `advice` compute and do no I/O. `slices`, `reading` and `key_fields` read the sample.
"""
