"""Spark's default file system is another one, which does not even answer: all that is the job's is on this machine."""

from __future__ import annotations

import json

import pytest

from tests.job.harness import JobProcess, Setup, small_workload
from tests.ports import free_port
from tests.reference.model import Rules

FLAGS = ("--until-caught-up", "--json", "--max-records-per-batch", "300")


@pytest.mark.long
def test_job_and_state_tools_use_the_folder_that_they_are_given(setup: Setup) -> None:
    conf = setup.folder / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(f"spark.hadoop.fs.defaultFS hdfs://127.0.0.1:{free_port()}/\n")
    env = {"SPARK_CONF_DIR": str(conf)}
    setup.create_inputs()
    setup.send(small_workload("--events", "700", "--flush-marker"))
    for _ in range(2):  # the second run finds what the first one left
        with JobProcess(setup.arguments(*FLAGS), setup.folder, env) as job:
            done = job.finish()
        assert done.code == 0, done.err
    setup.check_output(Rules(lookup=False), drain=False)
    with JobProcess(["checkpoint", "fingerprint", str(setup.checkpoint), "--json"], setup.folder, env) as tool:
        told = tool.finish()
    assert told.code == 0, told.err
    assert json.loads(told.out)["fingerprint"]
