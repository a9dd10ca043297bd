"""What a service declares of itself, so that the platform can run it, look into its state and move it.

The platform knows services by these ports alone. Enrichment fills them by hand (`services/enrichment/job.py`).
"""
