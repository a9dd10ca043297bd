"""The two ways to run a job: on Spark, or in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from moneystate.job.run_options import RunOptions


class Kind(NamedTuple):
    """`job` makes a job. `run` runs several until all have ended."""

    job: Callable[..., Any]
    run: Callable[..., Any]


def kind_of(options: RunOptions) -> Kind:
    """Imports only the wanted one: PySpark takes longer to import than a local job to start."""
    if options.local:
        from moneystate.job.local.job import LocalJob, run_local

        return Kind(LocalJob, run_local)
    from moneystate.spark.job import Job, run_together

    return Kind(Job, run_together)
