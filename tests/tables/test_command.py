"""`moneystate table load` as users meet it: what it prints, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path

import psycopg
import pytest

from moneystate.devpostgres import DevPostgres
from moneystate.kafka.topics import TopicSpec, ensure_topics
from tests.ops.rules import check_healthy
from tests.scrape import health, scraped
from tests.tables.harness import Ran, Site

Run = pytest.MonkeyPatch, pytest.CaptureFixture[str]


class Command:
    def __init__(self, site: Site, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self.site = site
        self.path = site.folder / "prices.csv"
        self._given = monkeypatch, capfd

    def __call__(self, *more: str) -> Ran:
        return self.site.run(*self._given, *more)

    def load(self, *more: str) -> Ran:
        return self(str(self.path), "--key", "sku", *more)

    def write(self, *lines: str) -> None:
        self.path.write_text("".join(f"{line}\n" for line in lines))
        os.utime(self.path, (1_000_000_000, 1_000_000_000))


@pytest.fixture
def command(site: Site, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    return Command(site, monkeypatch, capfd)


def test_it_says_what_it_would_do_and_what_it_has_done(command: Command) -> None:
    command.write("sku,unit_price", "a,1", "b,2")
    topic = command.site.topic
    done = command.load("--create-topic", "--topic-partitions", "2")
    assert (done.code, done.out) == (0, f"{topic}: 2 rows, 2 changed, 0 deleted\n")
    command.write("sku,unit_price", "a,3", "c,4")
    dry = command.load("--dry-run", "--types", "unit_price=number")
    assert dry.out.splitlines() == [
        '~ a {"sku":"a","unitPrice":3}', "- b", '+ c {"sku":"c","unitPrice":4}',
        f"{topic}: 2 rows, 2 would change, 1 deleted",
    ]  # fmt: skip
    reader = command.site.reader()
    assert {key: row["unitPrice"] for key, row in reader.read().items()} == {"a": "1", "b": "2"}
    told = json.loads(command.load("--json", "--quiet").out)
    assert told.pop("loaded_at").endswith("Z")
    assert re.fullmatch("prices.csv, [0-9]+ bytes, .*Z", told.pop("source"))
    assert told == {
        "topic": topic, "rows": 2, "changed": 2, "deleted": 1, "skipped": 0, "deletions_held_back": 0,
    }  # fmt: skip


def test_problems_are_named_by_line_and_not_all_of_them(command: Command) -> None:
    command.write("sku,cents", *[f"k{n},x" for n in range(30)])
    command.site.create()
    done = command.load("--types", "cents=int")
    assert done.code == 5
    lines = [json.loads(line) for line in done.err.splitlines()]
    assert [line["line"] for line in lines[:20]] == list(range(2, 22))
    assert {line["why"] for line in lines[:20]} == {"cents: not a whole number"}
    assert lines[20]["rows"] == 10
    assert "line 2" in lines[21]["event"]
    assert len(lines) == 22


def refusals(command: Command, folder: Path) -> list[tuple[str, ...]]:
    file = str(command.path)
    return [
        (), (file,), (file, "--sql", "x", "--key", "sku"), ("--sql", "SELECT 1", "--key", "sku"),
        (file, "--key", "sku", "--types", "cents"), (file, "--key", "sku", "--zone", "Nowhere/Land"),
        (file, "--key", "sku", "--delimiter", "ab"), (file, "--key", "sku", "--every", "1"),
        (file, "--key", "sku", "--every", "1m", "--watch"), (file, "--key", "sku", "--watch", "--dry-run"),
        ("--sql", "SELECT 1", "--dsn-file", str(folder / "dsn"), "--key", "sku", "--watch"),
        (str(folder / "prices.txt"), "--key", "sku"), (file, "--key", "sku", "--types", "other=int"),
    ]  # fmt: skip


def test_what_cannot_be_meant_is_refused_in_one_line(command: Command, tmp_path: Path) -> None:
    command.write("sku,cents", "a,1")
    command.site.create()
    for flags in refusals(command, tmp_path):
        done = command(*flags)
        assert done.code == 2, (flags, done)
        assert done.out == ""
        assert len(done.err.splitlines()) == 1, (flags, done.err)


@pytest.mark.parametrize(
    "spec",
    [
        TopicSpec("", 1, compacted=True, keep_for_good=True, broker_time=True),
        TopicSpec("", 1, broker_time=True, retention_ms=86_400_000),
        TopicSpec("", 1, keep_for_good=True),
        None,
    ],
    ids=["compacted", "with retention", "with times of producers", "missing"],
)
def test_a_topic_that_does_not_fit_is_refused(spec: TopicSpec | None, command: Command) -> None:
    if spec is not None:
        ensure_topics(command.site.admin, [TopicSpec(**{**spec.__dict__, "name": command.site.topic})], create=True)
    command.write("sku", "a")
    done = command.load()
    assert done.code == 3
    assert len(done.err.splitlines()) == 1


def test_a_loader_that_stays_answers_for_itself(command: Command) -> None:
    site = command.site
    site.create()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = site.start(str(command.path), "--key", "sku", "--every", "1h", "--metrics-port", str(port))
    site.until(lambda: health(port)[0] == 503 and "failed" in health(port)[1], "that the file is missing")
    command.write("sku,cents", "a,1", "b,2")
    site.until(lambda: health(port)[0] == 200, "a load")
    assert health(port, "/livez") == (200, "alive")
    page = scraped(port)
    assert page.value("moneystate_table_rows", site.topic) == 2
    assert page.value("moneystate_table_changed_rows_total", site.topic) == 2
    assert page.value("moneystate_table_load_age_seconds", site.topic) < 60
    check_healthy(page, "moneystate_table_", site.folder)
    process.terminate()
    assert process.wait(30) == 0, site.log()


def test_a_service_says_the_key_and_the_types_and_refuses_rows_that_it_would_not_read(command: Command) -> None:
    site = command.site
    of_service = ("--service", "tests.api.services.pricing:service", "--topic", "group-discounts")
    flags = (*of_service, "--topic-prefix", site.topic.removesuffix("prices"), "--create-topic")
    command.write("group,country,percents", '1,de,"[5,7]"', "2,de,[]", "3,,[]", '4,de,"[x]"', "x,de,[]")
    refused = command(str(command.path), *flags)
    assert refused.code == 5
    problems = [json.loads(line) for line in refused.err.splitlines()[:3]]
    assert [(p["line"], p["why"]) for p in problems] == [
        (4, "country: expected a part of the key, found null"),
        (5, "percents: not JSON: Expecting value at character 1"),
        (6, "group: not a whole number"),
    ]
    command.write("group,country,percents", '1,de,"[5,7]"', '2,de,"[""x""]"')
    done = command(str(command.path), *flags, "--on-error", "skip", "--json")
    assert json.loads(done.out)["skipped"] == 1
    site.topic = f"{site.topic.removesuffix('prices')}group-discounts"
    assert site.reader().read() == {'["1","de"]': {"group": 1, "country": "de", "percents": [5, 7]}}


def test_a_service_without_the_table_is_refused(command: Command) -> None:
    command.write("sku", "a")
    done = command.load("--service", "tests.api.services.pricing:service")
    assert done.code == 2
    assert "its tables are prices, group-discounts, limits" in done.err


@pytest.mark.long  # it waits as long as a load may take to end
def test_a_query_that_runs_on_after_a_signal_does_not_hold_the_loader(command: Command, postgres: DevPostgres) -> None:
    site = command.site
    site.create()
    (site.folder / "dsn").write_text(postgres.dsn())
    flags = ("--sql", "SELECT pg_sleep(600), 1 AS sku", "--dsn-file", "dsn", "--key", "sku", "--every", "1h")
    process = site.start(*flags)
    mine = "FROM pg_stat_activity WHERE application_name = 'moneystate table load' AND query LIKE 'FETCH%'"
    with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
        site.until(lambda: connection.execute(f"SELECT 1 {mine}").fetchall(), "the query")
        process.terminate()
        assert process.wait(60) == 0, site.log()
        connection.execute(f"SELECT pg_terminate_backend(pid) {mine}")  # the server does not notice
