"""Several jobs in one application: what is said of them is what ended them first."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from moneystate.errors import ConfigError, JobError, MoneystateError, StepError
from moneystate.spark import job as jobs
from moneystate.spark.job import Job
from tests.engine.tiny_service import tiny_job


class Prepared:
    """A job, up to the start of Spark."""

    spec = tiny_job()
    log: Path | None = None
    failure: MoneystateError | None = None

    def prepare(self) -> None: ...

    def begin_spark(self, name: str) -> None: ...

    def tell_end(self, is_whole: bool) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize("first", [StepError("a record", "mend it"), ConfigError("a refusal", "another flag")])
def test_a_job_that_is_interrupted_by_the_end_of_another_does_not_hide_why(
    monkeypatch: pytest.MonkeyPatch, first: MoneystateError
) -> None:
    interrupted, failed = Prepared(), Prepared()

    def end(_: Any) -> Any:
        interrupted.failure = JobError("cancelled", "see the log")  # as by the end of the session
        raise first

    monkeypatch.setattr(jobs, "_run_spark", end)
    with pytest.raises(type(first), match=str(first.args[0])):
        jobs.run_together(cast("list[Job]", [interrupted, failed]))
