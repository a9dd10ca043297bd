"""Tools that read a job's state from outside the job."""
