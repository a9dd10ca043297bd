"""A receiver that is away, slow or broken: the command does not wait for it, counts what is lost, and warns once."""

from __future__ import annotations

import logging
import socket
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from moneystate.telemetry import outbox, traces
from moneystate.telemetry.datasets import JobDatasets, Topic
from moneystate.telemetry.delivery import Delivery
from moneystate.telemetry.outbox import Outbox
from moneystate.telemetry.run_events import Client, RunEvents
from moneystate.telemetry.spans import Span
from moneystate.telemetry.traces import Traces
from tests.ports import free_port
from tests.telemetry.receivers import Receiver
from tests.waiting import until

UP_S = 60.0
JOB = JobDatasets("job", "a:9092", [Topic("in")], [Topic("out"), Topic("state")], "state")
SPAN = Span("batch", 1, 2)


class Counts(Counter[str]):
    def add(self, number: int, result: str) -> None:
        self[result] += number


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes requests and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture(params=["nobody", "silent"])
def away(request: pytest.FixtureRequest, silent: str) -> str:
    return silent if request.param == "silent" else f"http://127.0.0.1:{free_port()}"


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


def test_events_that_cannot_be_sent_are_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, counts: Counts, away: str
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", away)
    monkeypatch.setattr(outbox.Outbox.close, "__defaults__", (0.2,))
    client = Client(counts.add)
    run = RunEvents(JOB, client, 0)
    run.start()
    run.complete()
    client.close()
    assert counts == {"lost": 2}
    (warning,) = warnings(caplog)
    assert warning.startswith("warning: OpenLineage's events do not arrive")
    assert away not in warning


def test_spans_that_cannot_be_sent_are_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, counts: Counts, away: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", away)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    sent = Traces("s", counts.add)
    sent.record(SPAN)
    sent.close()
    until(lambda: counts == {"lost": 1}, lambda: str(counts), UP_S)
    (warning,) = warnings(caplog)
    assert warning.startswith("warning: OpenTelemetry's spans do not arrive")


def test_the_end_does_not_wait_for_spans(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, counts: Counts, silent: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", silent)
    monkeypatch.setattr(traces, "CLOSE_S", 0.1)
    sent = Traces("s", counts.add)
    sent.record(SPAN)
    sent.close()
    assert counts.total() == 0  # it is still on its way
    assert len(warnings(caplog)) == 1


def test_what_waits_is_bounded_and_the_newest_stays(counts: Counts, caplog: pytest.LogCaptureFixture) -> None:
    arrived: list[int] = []
    begun, goes_on = threading.Event(), threading.Event()

    def send(number: int) -> None:
        begun.set()
        goes_on.wait()
        arrived.append(number)

    box = Outbox(send, Delivery("Events", "wait.", counts.add), "test")
    box.put(0)
    begun.wait()
    for number in range(1, 2 * outbox.MOST_WAITING + 1):
        box.put(number)
    assert counts == {"lost": outbox.MOST_WAITING}
    assert len(warnings(caplog)) == 1
    goes_on.set()
    box.close(UP_S)
    assert arrived == [0, *range(outbox.MOST_WAITING + 1, 2 * outbox.MOST_WAITING + 1)]
    assert counts == {"lost": outbox.MOST_WAITING, "sent": outbox.MOST_WAITING + 1}


def test_events_of_a_run(monkeypatch: pytest.MonkeyPatch, counts: Counts) -> None:
    """Those that are too frequent are left out. A parent and a namespace come from the surroundings."""
    parent = "01a20793-68bb-77c6-8891-9de8acb0d630"
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "prod")
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", f"airflow/a/dag.task/{parent}")
    now = 0.0
    with Receiver() as receiver:
        monkeypatch.setenv("OPENLINEAGE_URL", receiver.url)
        client = Client(counts.add)
        run = RunEvents(JOB, client, 60.0, clock=lambda: now)
        run.start()
        for now in (59.0, 60.0, 61.0, 119.0, 121.0):
            run.progress({"in": int(now)}, {"out": 1, "state": 2}, f"e/{now:.0f}")
        run.fail("StepError")
        client.close()
        events = receiver.events()
    assert [event["eventType"] for event in events] == ["START", "RUNNING", "RUNNING", "FAIL"]
    read = [event["inputs"][0]["inputFacets"].get("inputStatistics", {}).get("rowCount") for event in events]
    assert read == [None, 60, 121, 121]
    assert events[-1]["outputs"][1]["facets"]["version"]["datasetVersion"] == "e/121"
    assert events[-1]["run"]["facets"]["errorMessage"]["message"] == "StepError"
    assert {event["job"]["namespace"] for event in events} == {"prod"}
    facet = events[0]["run"]["facets"]["parent"]
    assert (facet["run"]["runId"], facet["job"]["namespace"], facet["job"]["name"]) == (parent, "airflow/a", "dag.task")
    assert counts == {"sent": 4}
