"""The start of a job leaves nothing open that the job does not use."""

from __future__ import annotations

import gc
from pathlib import Path

from confluent_kafka.admin import AdminClient

from moneystate.devbroker import DevBroker
from moneystate.job.run_options import RunOptions
from moneystate.spark.job import Job
from tests.engine.tiny_service import tiny_job


def test_a_prepared_job_has_no_admin_client(broker: DevBroker, topic_prefix: str, tmp_path: Path) -> None:
    options = RunOptions(broker.bootstrap_servers, str(tmp_path / "checkpoint"), topic_prefix=topic_prefix)
    job = Job(tiny_job(), options, lambda progress: None)
    job.prepare()
    gc.collect()
    held = gc.get_referents(vars(job.preparation), vars(job.preparation.checks))
    assert not [one for one in held if isinstance(one, AdminClient)]
    job.close()
