"""`moneystate lookup-worker` and `fake-session-service` as they are run: flags, formats, metrics, how they end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil
import pytest

from moneystate.cli import main
from services.enrichment.fake_service import FakeSessionService, Knowledge
from tests.formats.values import JSON
from tests.log_lines import kinds
from tests.lookup.harness import REQUESTS, RESULTS, Lookups, found, request
from tests.ops.rules import check_healthy
from tests.ports import free_port
from tests.reference import kafka_log
from tests.reference.codec import encode
from tests.scrape import Scrape, health

WORKER = ("lookup-worker", "enrichment", "--bootstrap-servers", "127.0.0.1:1", "--url", "http://h")


def test_topics_in_json_metrics_and_an_end_in_good_order(lookups: Lookups, tmp_path: Path) -> None:
    formats = [part for topic in (REQUESTS, RESULTS) for part in ("--format", f"{topic}=json")]
    port = free_port()
    with (
        FakeSessionService(lambda *_: found("UY")) as service,
        lookups.process(service, *formats, "--metrics-port", str(port), "--json", "--log-level", "error") as worker,
    ):
        value = JSON.from_canonical(encode("SessionLookupRequested", request()))
        lookups.cluster.send(lookups.cluster.prefix + REQUESTS, [value, value])
        group = f"{lookups.cluster.prefix}session-lookup-worker"
        worker.wait_for(lambda: lookups.committed(group)[0] == 2, "both requests")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
            shown = page.read().decode()
        assert (health(port), health(port, "/livez")) == ((200, "ready"), (200, "alive"))
        sockets = psutil.Process(worker.process.pid).net_connections("tcp")
        assert {s.laddr.ip for s in sockets if s.laddr.port == port} == {"127.0.0.1"}
        done = worker.stop_group()  # a service manager signals the whole group
    check_healthy(Scrape(shown), "moneystate_lookup_", tmp_path)
    assert (done.code, done.totals["replies"], done.totals["calls"]) == (0, 1, 1), done.err
    assert done.err == ""  # which at other levels tells of its index and its partitions
    for line in (
        'moneystate_lookup_replies_total{outcome="FOUND",service="money-enrichment"} 1.0',
        'moneystate_lookup_breaker_state{service="money-enrichment",state="closed"} 1.0',
        'moneystate_lookup_attempts_total{result="found",service="money-enrichment"} 1.0',
        'moneystate_lookup_waiting{service="money-enrichment"} 0.0',
        'moneystate_lookup_oldest_waiting_seconds{service="money-enrichment"} 0.0',
        'moneystate_lookup_in_flight{service="money-enrichment"} 0.0',
        'moneystate_lookup_call_seconds_count{service="money-enrichment"} 1.0',
    ):
        assert line in shown.splitlines()
    records, _ = kafka_log.read_log(lookups.cluster.bootstrap_servers, [RESULTS], lookups.cluster.prefix)
    (answer,) = [json.loads(record.value or b"") for record in records]
    assert (answer["moneyId"], answer["outcome"], answer["clientCountryCode"]) == ("m", "FOUND", "UY")


def test_the_fake_service_says_where_it_is_and_ends_when_told(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "moneystate.cli.main", "fake-session-service", "--port", "0", "--seed", "7"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with urllib.request.urlopen(f"{url}/sessions/s") as answer:
            assert json.load(answer) == {"clientCountryCode": Knowledge(7).country("s")}
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        (*WORKER, "--url", "http://h/sessions/{user_session_id}"),
        (*WORKER, "--url", "http://h/?version=1"),
        (*WORKER, "--lookup", "prices"),
        (*WORKER, "--url", ""),
        (*WORKER, "--bootstrap-servers", " "),
        (*WORKER, "--concurrency", "0"),
        (*WORKER, "--attempts", "0"),
        (*WORKER, "--breaker-threshold", "0"),
        (*WORKER, "--rate-limit", "-1"),
        (*WORKER, "--call-timeout", "1"),
        (*WORKER, "--deadline", "0s"),
        (*WORKER, "--tls-cert", "cert.pem"),
        (*WORKER, "--tls-ca", "no/such/file"),
        (*WORKER, "--token-file", "no/such/file"),
        (*WORKER, "--format", "wallet-events=json"),
        (*WORKER, "--format", f"{REQUESTS}=confluent"),
        (*WORKER, "--kafka-config", "x"),
        ("fake-session-service", "--error-rate", "2"),
        ("fake-session-service", "--not-found-rate", "-1"),
        ("fake-session-service", "--latency", "x"),
    ],
    ids=" ".join,
)
def test_a_flag_that_cannot_be_is_one_line_and_code_2(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], wrong: tuple[str, ...]
) -> None:
    monkeypatch.setattr("sys.argv", ["moneystate", *wrong])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert end.value.code == 2
    printed = capfd.readouterr()
    assert (printed.out, kinds(printed.err)) == ("", ["error:"])
    assert wrong[-2] in printed.err
