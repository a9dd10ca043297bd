"""A job apart from what runs it: settings, checkpoint, checks at the start, the loop of batches, and what they report.

It imports neither PySpark nor py4j. `moneystate.spark` and `moneystate.job.local` run jobs.
"""
