"""`make bench`: the job as a whole against baselines of the same run."""
