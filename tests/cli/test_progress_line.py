"""The counters in the progress of a job: those that its service has."""

from __future__ import annotations

import pytest

from moneystate.cli import services
from moneystate.cli.display import Display
from moneystate.engine.deadletter import COUNT_PREFIX
from moneystate.job.progress import BatchProgress
from moneystate.ports.service import JobSpec
from moneystate.runtime.job import service_spec
from tests.enrichment.jobs import Rules, enrichment_job

COUNTS = {"late": 2, "moved": 7, f"{COUNT_PREFIX}malformed": 3, "split": 1_007, "none": 0, "a": 1, "b": 1, "c": 1}


def plain(name: str) -> JobSpec:
    return service_spec(services.load(name)).job({})


def shown(spec: JobSpec, counts: dict[str, int]) -> list[str]:
    """Returns what stands in the line between the watermark and the partitions."""
    display = Display(True, spec.name, counters=spec.counters)
    display.batch(BatchProgress(3, 10, 1.0, 5, None, drained=False, buffered=4, counts=counts, held_by="orders/0"))
    return display.line().split(", ")[3:-1]


@pytest.mark.parametrize(
    ("name", "counters"),
    [
        ("reconciliation", ["late 0"]),
        ("reconciliation-completeness", []),  # its one input is a timed stream, in which nothing is late
        ("examples/orders/orders.py:service", ["late 0", "duplicates 0"]),
    ],
)
def test_a_plain_service_shows_the_counters_that_it_can_have(name: str, counters: list[str]) -> None:
    assert shown(plain(name), {}) == ["buffered 4", *counters, "dead letters 0"]


def test_a_services_own_counters_follow_the_largest_first() -> None:
    wanted = ["buffered 4", "late 2", "dead letters 3", "split 1,007", "moved 7", "a 1", "b 1"]
    assert shown(plain("reconciliation"), COUNTS) == wanted


def test_the_enrichment_shows_its_own() -> None:
    wanted = ["buffered 4", "looking_up 0", "late 2", "duplicates 0", "dead letters 0", "waiting 1"]
    assert shown(enrichment_job(Rules()), {"waiting": 1, "late": 2}) == wanted


def test_the_first_batch_in_which_all_inputs_are_idle_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    display = Display(True, "notes")
    active = BatchProgress(1, 3, 1.0, 0, 1_000, drained=False, buffered=3_818, idle=["a/0"], held_by="b/0")
    idle = BatchProgress(2, 0, 1.0, 0, 5_000, drained=False, buffered=8, idle=["a/0", "b/0"])
    for progress in (active, idle, idle):
        display.batch(progress)
    (line,) = [message for message in caplog.messages if "all inputs are idle" in message]
    assert "the watermark went on to 1970-01-01T00:00:05.000Z, which released 3,810 events" in line
