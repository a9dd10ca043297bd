"""What the console shows of a job's metrics, and of the alerts of a Prometheus server."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from prometheus_client import CollectorRegistry, Gauge, start_http_server

from moneystate.console.endpoints import Unanswered, alerts_of
from moneystate.console.figures import Figures, Page, Place, figures_of, page_of, why_held
from moneystate.devbroker import DevBroker
from tests.console.world import WITHIN_S, World
from tests.ops.rules import ALERTS, tool_at
from tests.ports import free_ports
from tests.scrape import scraped
from tests.waiting import until

PAGE = """
moneystate_job_ready{service="notes"} 1.0
moneystate_job_watermark_standing_seconds{service="notes"} 0.0
moneystate_job_watermark_lag_seconds{service="notes"} 12.5
moneystate_job_watermark_held_by{partition="1",service="notes",topic="orders"} 1.0
moneystate_job_partition_idle{partition="0",service="notes",topic="orders"} 1.0
moneystate_job_partition_idle{partition="1",service="notes",topic="orders"} 0.0
moneystate_job_input_watermark_lag_seconds{service="notes",topic="orders"} 12.5
moneystate_job_input_watermark_lag_seconds{service="notes",topic="users"} 2.5
# TYPE moneystate_job_records counter
moneystate_job_records_total{service="notes",topic="orders"} 100.0
moneystate_job_records_total{service="notes",topic="users"} 50.0
moneystate_job_records_total{service="other",topic="users"} 7.0
# TYPE moneystate_job_batch_seconds histogram
moneystate_job_batch_seconds_bucket{le="+Inf",service="notes"} 4.0
moneystate_job_batch_seconds_count{service="notes"} 4.0
moneystate_job_batch_seconds_sum{service="notes"} 2.0
moneystate_query_calls_total{service="notes"} 1.0
"""
LATER = (
    PAGE.replace('topic="orders"} 100.0', 'topic="orders"} 300.0')
    .replace("seconds_count{service=\"notes\"} 4.0", "seconds_count{service=\"notes\"} 6.0")
    .replace("seconds_sum{service=\"notes\"} 2.0", "seconds_sum{service=\"notes\"} 8.0")
)  # fmt: skip


def notes_of(before: Page | None, now: Page) -> Figures:
    [mine] = [one for one in figures_of("127.0.0.1:1", before, now) if one.service == "notes"]
    return mine


def test_rates_and_durations_are_those_between_two_pages() -> None:
    first, second = page_of(PAGE, 10.0), page_of(LATER, 20.0)
    alone, between = notes_of(None, first), notes_of(first, second)
    assert (alone.records_a_second, alone.batch_s) == (None, 0.5)
    assert (between.records_a_second, between.batch_s) == (20.0, 3.0)
    assert (alone.held_by, list(alone.idle), alone.partitions) == (Place("orders", 1), [Place("orders", 0)], 2)
    assert alone.is_ready
    assert alone.watermark_lag_s == 12.5


def test_a_job_that_has_begun_again_has_no_rate() -> None:
    assert notes_of(page_of(LATER, 10.0), page_of(PAGE, 20.0)).records_a_second is None


def test_why_the_watermark_is_held_is_told() -> None:
    its = notes_of(None, page_of(PAGE, 1.0))
    assert why_held(its, {("orders", 1): 1_200}) == "orders/1 holds it back: 1,200 of its records are not read yet."
    assert why_held(its, {}) == "orders/1 holds it back: the topic is 10 s behind the others."
    standing = PAGE.replace('standing_seconds{service="notes"} 0.0', 'standing_seconds{service="notes"} 9.0')
    stands = notes_of(None, page_of(standing, 1.0))
    assert "no later record and no heartbeat" in why_held(stands, {})
    even = notes_of(None, page_of(PAGE.replace('topic="users"} 2.5', 'topic="users"} 12.5'), 1.0))
    assert why_held(even, {}) == "orders/1 has the earliest newest event."
    lines = [line for line in PAGE.splitlines() if "held_by" not in line]
    quiet = notes_of(None, page_of("\n".join(lines).replace('topic="orders"} 0.0', 'topic="orders"} 1.0'), 1.0))
    assert "All partitions are idle" in why_held(quiet, {})


def test_only_this_projects_alerts_that_fire_are_shown_the_most_severe_first() -> None:
    text = """{"status": "success", "data": {"alerts": [
        {"labels": {"alertname": "MoneystateA", "severity": "warning"}, "annotations": {}, "state": "firing"},
        {"labels": {"alertname": "MoneystateB", "severity": "critical", "service": "notes"}, "state": "firing",
         "annotations": {"summary": "it stands", "runbook": "docs/runbook.md#b"},
         "activeAt": "2026-01-31T10:00:00.123456789Z"},
        {"labels": {"alertname": "MoneystateC"}, "annotations": {}, "state": "pending"},
        {"labels": {"alertname": "DiskFull"}, "annotations": {}, "state": "firing"}]}}"""
    first, second = alerts_of(text)
    assert (first.name, first.summary, first.since_ms) == ("MoneystateB", "it stands", 1_769_853_600_000)
    assert (second.name, second.since_ms) == ("MoneystateA", None)
    with pytest.raises(Unanswered):
        alerts_of("<html>")


@contextmanager
def prometheus(folder: Path, port: int, job: int) -> Iterator[None]:
    """A real one with this project's rules, which fire at once. It asks a job, and a port that nobody answers."""
    program = tool_at("prometheus")
    assert program is not None, "Prometheus is missing: make test ARGS=tests/console, or apt-get install prometheus"
    rules = "\n".join(line for line in ALERTS.read_text().splitlines() if not line.strip().startswith("for: "))
    (folder / "alerts.yml").write_text(rules)
    (folder / "prometheus.yml").write_text(
        "global: { scrape_interval: 1s, evaluation_interval: 1s }\nrule_files: [alerts.yml]\nscrape_configs:\n"
        f'  - {{ job_name: moneystate-job, static_configs: [{{ targets: ["127.0.0.1:{job}"] }}] }}\n'
        '  - { job_name: moneystate-replica, static_configs: [{ targets: ["127.0.0.1:1"] }] }\n'
    )
    arguments = [
        f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen([program, *arguments], stdout=log, stderr=log)
        try:
            yield
        finally:
            process.kill()
            process.wait()


def test_a_job_is_shown_as_its_metrics_say_with_the_alerts_that_fire(own_broker: DevBroker, tmp_path: Path) -> None:
    metrics, alerts = free_ports(2)
    flags = ("--prometheus", f"http://127.0.0.1:{alerts}/")
    world = World(
        own_broker.bootstrap_servers, tmp_path, *flags, "--grafana", "http://grafana.test/d/1", services=("notes",),
        job_flags=("--metrics-port", str(metrics), "--announce", "127.0.0.1", "--idle-timeout", "1h"),
    )  # fmt: skip
    with prometheus(tmp_path, alerts, metrics), world, closing(HTTPConnection(world.console)) as follower:
        follower.request("GET", "/live/services")  # else the console looks more rarely
        page = world.shown("/services/notes", "by its metrics at", "/s written", "Phases of a batch")
        assert 'href="http://grafana.test/d/1"' in page.text
        world.shown("/", "MoneystateDown", "127.0.0.1:1 does not answer.", "docs/runbook.md#moneystatedown")
        held = until(lambda: scraped(metrics).values("moneystate_job_watermark_held_by"), world.jobs[0].err, WITHIN_S)
        [(partition, topic)] = held
        world.shown("/", f"{topic}/{partition} ")


def test_without_prometheus_the_console_evaluates_the_rules_itself(own_broker: DevBroker, tmp_path: Path) -> None:
    registry = CollectorRegistry()
    Gauge("moneystate_job_batch_running_seconds", "It hangs.", ["service"], registry=registry).labels("notes").set(400)
    server, thread = start_http_server(0, "127.0.0.1", registry)
    flags = ("--show-metrics", f"127.0.0.1:{server.server_port}", "--prometheus", "http://127.0.0.1:1")
    console = World(own_broker.bootstrap_servers, tmp_path, *flags, services=())
    console.addresses = {}
    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap_servers, "log_level": 0})
    for future in admin.create_topics([NewTopic(f"{name}-commits", 1, 1) for name in ("notes", "quiet")]).values():
        with suppress(KafkaException):  # another test's job has made it
            future.result()
    with console.stack:
        console.console = console.listening(console.run_console())
        page = console.shown("/", "MoneystateBatchHangs", "docs/runbook.md#moneystatebatchhangs")
        assert page.has("A batch of notes has run for 6 min", "http://127.0.0.1:1: expected an answer")
        assert console.shown("/services/notes", "moneystatebatchhangs").status == 200
        assert not console.shown("/services/quiet", "quiet").has("moneystatebatchhangs")
    server.shutdown()
    thread.join()
