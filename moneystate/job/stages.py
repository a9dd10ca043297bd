"""Which jobs of one run must end before others begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from moneystate.engine.inputs import Inputs
from moneystate.job.base_job import BaseJob

J = TypeVar("J", bound=BaseJob)


def stages(jobs: Sequence[J]) -> list[list[J]]:
    """The jobs in groups that run one after the other. A bounded run reads what is in the topics when it starts. So a
    job that reads another job's output starts when that job has ended. All others, and loops, run at the same time."""
    if not jobs[0].options.bounded:
        return [list(jobs)]
    left, grouped = list(jobs), []
    while left:
        ready = [job for job in left if not any(_reads(job, other) for other in left if other is not job)] or left
        grouped.append(ready)
        left = [job for job in left if job not in ready]
    return grouped


def _reads(job: BaseJob, writer: BaseJob) -> bool:
    inputs = Inputs(job.spec.inputs)
    return any(inputs.of(stream) for stream in writer.spec.streams)
