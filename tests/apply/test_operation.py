"""Grants, TLS, secrets, limits and metrics: what whoever operates it relies on."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from moneystate.apply.process import Metrics
from moneystate.apply.relay import Relay
from moneystate.errors import ConfigError, RetentionError
from tests.apply.harness import ROOT, Site
from tests.apply.model import LARGE, MOVEMENTS, Balances, movements

BALANCES = ROOT / "examples" / "balances"
PASSWORD = "not-to-be-seen"
TARGETS = """
[rows.orders]
topic = "orders"
key = "id"
table = ["public", "orders"]

[handler.movements]
topic = "movements"
handler = "balances:move"
notifications = "large-changes"
"""


@pytest.fixture(autouse=True)
def tables(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.sql((BALANCES / "tables.sql").read_text())
    site.sql("CREATE TABLE orders (id text PRIMARY KEY, cents bigint UNIQUE)")
    shutil.copy(BALANCES / "balances.py", site.folder)
    monkeypatch.syspath_prepend(str(site.folder))
    for topic in ("orders", MOVEMENTS, LARGE):
        site.topic(topic)


def documented_grants(database: str, role: str) -> list[str]:
    """The statements of docs/security.md."""
    page = (ROOT / "docs" / "security.md").read_text()
    statements = re.findall(r"^GRANT .*?;$", page, re.MULTILINE)
    return [s.replace("DATABASE shop", f'DATABASE "{database}"').replace("applier", f'"{role}"') for s in statements]


def test_the_documented_grants_are_enough_and_tls_is_as_libpq_does_it(site: Site) -> None:
    with site.running(site.config(TARGETS)):
        pass  # makes the tables of positions, outbox and versions
    role = f"{site.name}-role"
    site.sql(f"CREATE ROLE \"{role}\" LOGIN PASSWORD '{PASSWORD}'")
    site.sql("REVOKE ALL ON SCHEMA public FROM public")
    site.sql(f'REVOKE ALL ON DATABASE "{site.name}" FROM public')
    try:
        for statement in documented_grants(site.name, role):
            site.sql(statement)
        (site.folder / "dsn").write_text(site.postgres.dsn(site.name, role, PASSWORD, tls=True))
        sent = movements(seed=4, count=200)
        site.send(MOVEMENTS, sent)
        site.send("orders", [("a", {"id": "a", "cents": 1}), ("b", {"id": "b", "cents": 2}), ("b", None)])
        model = Balances(sent)
        with site.running(site.config(TARGETS), create_tables=False):
            site.until(lambda: model.rows == Balances.stored(site), "the rows of the handler")
            site.until(lambda: site.sql("SELECT id FROM orders") == [("a",)], "the rows")
            site.until(lambda: not site.sql("SELECT 1 FROM moneystate_outbox"), "an empty outbox")
            tls = site.sql(
                "SELECT DISTINCT s.ssl FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE a.usename = %s",
                role,
            )
            assert tls == [(True,)]
    finally:
        site.sql(f'DROP OWNED BY "{role}"; DROP ROLE "{role}"')


def failing(site: Site, dsn: str) -> str:
    """What the command says that cannot log in."""
    (site.folder / "dsn").write_text(dsn)
    config = site.config(TARGETS)
    done = subprocess.run(
        [sys.executable, "-m", "moneystate.cli.main", "apply", "--config", str(config)],
        capture_output=True, text=True, cwd=site.folder, env=site.environ(), check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == ConfigError.exit_code, done.stderr
    return done.stderr


def test_a_refused_login_is_an_error_at_the_start_that_tells_no_secret(site: Site) -> None:
    stderr = failing(site, site.postgres.dsn(site.name, password=PASSWORD))
    assert "expected to be let in" in stderr
    assert PASSWORD not in stderr
    stderr = failing(site, f"host=127.0.0.1 {PASSWORD}")
    assert "expected the connection string, found another text" in stderr
    assert PASSWORD not in stderr


def test_a_compacted_topic_that_was_left_for_too_long_is_refused(site: Site) -> None:
    site.topic("left", compacted=True)
    site.sql("CREATE TABLE lefts (id text PRIMARY KEY)")
    config = site.config(TARGETS[: TARGETS.index("[handler")].replace("orders", "left").replace('"left"]', '"lefts"]'))
    site.send("left", [("a", {"id": "a"})])
    with site.running(config):
        site.until(lambda: site.sql("SELECT 1 FROM lefts"), "the row")
    site.sql("UPDATE moneystate_positions SET read_to_end_at = now() - interval '13 hours'")
    error = site.error_of(config, lambda process: site.until(lambda: process.workers[0].error, "an error"))
    assert isinstance(error, RetentionError)
    assert "rebuild" in str(error)


def test_applying_pauses_while_the_outbox_is_full(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    start = Relay.start
    monkeypatch.setattr(Relay, "start", lambda _: None)
    config = site.config(TARGETS, top="outbox-limit = 10")
    value = {"account": "a", "cents": 20_000}
    site.send(MOVEMENTS, [("a", value)] * 20)
    with site.running(config) as process:
        site.until(lambda: len(site.sql("SELECT 1 FROM moneystate_outbox")) == 20, "a full outbox")
        site.until(lambda: process.workers[1]._outbox_full, "a pause")  # type: ignore[union-attr]
        site.send(MOVEMENTS, [("a", value)] * 5)
        assert site.sql("SELECT movements FROM balances") == [(20,)]
        monkeypatch.setattr(Relay, "start", start)
        process.relay.start()
        site.until(lambda: site.sql("SELECT movements FROM balances") == [(25,)], "the movements after the pause")


def test_metrics_and_health_tell_what_goes_on(site: Site) -> None:
    site.send("orders", [("a", {"id": "a", "cents": 1}), ("x", {"id": "y"})])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = site.start(site.config(TARGETS), "--create-tables", "--metrics-port", str(port))

    def page(path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return answer.read().decode()  # type: ignore[no-any-return]
        except OSError:
            return ""

    site.until(lambda: 'moneystate_apply_records_total{target="orders"} 2.0' in page("/metrics"), "two records")
    assert 'moneystate_apply_dead_letters_total{target="orders"} 1.0' in page("/metrics")
    assert page("/readyz").strip() == "ready"
    process.terminate()
    assert process.wait(60) == 0, site.log()


def test_a_constraint_beside_the_key_is_warned_of(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    with site.running(site.config(TARGETS)):
        pass
    assert any("orders_cents_key" in record.getMessage() for record in caplog.records)


def test_each_metric_has_the_label_of_its_target(site: Site) -> None:
    with site.running(site.config(TARGETS)) as process:
        names = {s.labels.get("target") for family in Metrics(process).collect() for s in family.samples}
    assert names == {"orders", "movements", None}


def diagnosed(site: Site, config: Path) -> tuple[int, dict[str, list[str]]]:
    """The exit code of `doctor`, and what it says by level."""
    done = subprocess.run(
        [sys.executable, "-m", "moneystate.cli.main", "apply", "doctor", "--config", str(config), "--json"],
        capture_output=True, text=True, cwd=site.folder, env=site.environ(), check=False, timeout=60,
    )  # fmt: skip
    by_level: dict[str, list[str]] = {}
    for finding in json.loads(done.stdout or "[]"):
        by_level.setdefault(finding["level"], []).append(f"{finding['about']}: {finding['text']}")
    return done.returncode, by_level


def test_doctor_warns_of_constraints_beside_the_key(site: Site) -> None:
    config = site.config(TARGETS)
    code, by_level = diagnosed(site, config)
    assert (code, len(by_level["error"])) == (1, 1)
    assert "expected the tables of positions, outbox and versions" in by_level["error"][0]
    with site.running(config):
        pass
    code, by_level = diagnosed(site, config)
    assert (code, "error" in by_level) == (0, False)
    [warned] = by_level["warning"]
    assert warned.startswith("[rows.orders]: expected no constraint beside the key, found orders_cents_key")


def test_doctor_finds_positions_that_a_start_refuses(site: Site) -> None:
    config = site.config(TARGETS)
    site.send("orders", [("a", {"id": "a", "cents": 1})])
    with site.running(config):
        site.until(lambda: site.sql("SELECT 1 FROM orders"), "the row")
    site.sql("UPDATE moneystate_positions SET next_offset = 7 WHERE target = 'orders'")
    site.sql("UPDATE moneystate_positions SET topic_id = 'another' WHERE target = 'movements'")
    code, by_level = diagnosed(site, config)
    assert code == 1
    assert [text.split(":")[0] for text in by_level["error"]] == ["[rows.orders]", "[handler.movements]"]
    assert "position 7 in the log" in by_level["error"][0]
    assert "deleted and made again" in by_level["error"][1]
