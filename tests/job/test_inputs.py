"""Inputs of many partitions: only with Spark, several tasks read them."""

from __future__ import annotations

from tests.job.harness import Setup, small_workload
from tests.reference import model

DRAIN = ("--until-caught-up", "--drain", "--json")


def test_topics_of_200_partitions_are_read_by_two_tasks(setup: Setup) -> None:
    setup.create_inputs(200)
    setup.send(small_workload("--events", "800", "--flush-marker", "--partitions", "200"))
    setup.run(*DRAIN, "--max-records-per-batch", "500")
    setup.check_output(model.Rules(lookup=False), drain=True)
    assert {r.partition for r in setup.inputs()[0]} > set(range(150))
