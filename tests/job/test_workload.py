"""The seeded workload through the real job: the reference's output, whatever the batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeGuard

import pytest

from moneystate.devbroker import DevBroker
from moneystate.job.checkpoint import Checkpoint
from moneystate.records.codec import Codec
from moneystate.records.platform_records import LINEAGE_RECORD
from tests.job.harness import ENRICHED, Finished, JobProcess, Setup, counts, small_workload
from tests.log_lines import impersonal
from tests.reference.codec import Malformed, decode
from tests.reference.model import SESSION, WALLET, LogRecord, Rules

# shorter than the workload's hour, so that sessions and ids expire in it
RULES = Rules(lookup=False, session_ttl_ms=600_000, dedup_ttl_ms=20_000, session_wait_ms=30_000)
FLAGS = ("--session-ttl", "10m", "--dedup-ttl", "20s", "--session-wait", "30s", "--json")
BOUNDED = ("--until-caught-up", "--drain", *FLAGS)
LINEAGE = Codec(LINEAGE_RECORD)


def check_bounded_run(setup: Setup, *flags: str) -> None:
    """Whatever the batches run on."""
    log = small_workload("--events", "1200", "--flush-marker")
    setup.create_inputs()
    setup.send(log)
    done = setup.run(*BOUNDED, *flags, "--max-records-per-batch", str(len(log) // 4 + 1))
    want = setup.check_output(RULES, drain=True)
    assert done.totals["records"] == len(log)
    assert done.totals["batch"] in (4, 5)
    assert {name: done.totals[name] for name in counts(want)} == counts(want)
    assert setup.refused(*BOUNDED, *flags).code == 4  # a drained checkpoint has come to its end


def test_a_bounded_run_gives_the_references_output_once(setup: Setup) -> None:
    check_bounded_run(setup)
    check_lineage(setup)


@pytest.mark.long
def test_few_batches_many_and_a_live_run_give_the_references_output(
    broker: DevBroker, topic_prefix: str, tmp_path: Path
) -> None:
    log = small_workload("--events", "2500", "--flush-marker")
    setups = []
    for name in ("few", "many", "live"):
        setup = Setup(broker.bootstrap_servers, f"{topic_prefix}{name}-", tmp_path / name)
        setup.folder.mkdir()
        setup.create_inputs()
        setups.append(setup)
    few, many, live = setups
    few.send(log)
    many.send(log)

    done = few.run(*BOUNDED, "--max-records-per-batch", str(len(log) // 4 + 1))
    want = few.check_output(RULES, drain=True)
    assert done.totals["records"] == len(log)
    assert done.totals["batch"] in (4, 5)
    assert {name: done.totals[name] for name in counts(want)} == counts(want)
    assert done.totals["drained"]

    done = many.run(*BOUNDED, "--max-records-per-batch", str(len(log) // 38))
    many.check_output(RULES, drain=True)
    assert done.totals["batch"] >= 38
    assert {name: done.totals[name] for name in counts(want)} == counts(want)

    third = len(log) // 3
    _run_live(live, [log[:third]], JobProcess.interrupt)
    _run_live(live, [log[third : 2 * third], log[2 * third :]], JobProcess.stop)
    live.run(*BOUNDED)
    live.check_output(RULES, drain=True)
    assert few.enriched_with_lineage() == many.enriched_with_lineage() == live.enriched_with_lineage()


def check_lineage(setup: Setup) -> None:
    """Each record names the event that put it out: the money itself, or the session that it waited for."""
    records, _ = setup.inputs()
    users = {(r.topic, r.partition, r.offset): decode(r.value)[1].get("userId") for r in records if is_known(r.value)}
    for value, headers in setup.enriched_with_lineage():
        content = dict(headers)["lineage"]
        assert value is not None
        assert content is not None
        event = LINEAGE.decode(content)
        assert event.topic in (WALLET, SESSION)
        assert users[event.topic, event.partition, event.offset] == decode(value)[1]["money"]["userId"]


def is_known(value: bytes | None) -> TypeGuard[bytes]:
    try:
        return value is not None and bool(decode(value))
    except (Malformed, KeyError):
        return False


def _run_live(setup: Setup, parts: list[list[LogRecord]], stop: Callable[[JobProcess], Finished]) -> None:
    """Records come while it runs, and it is told to stop once it has caught up: it ends in good order."""
    with setup.start(*FLAGS, "--log-level", "debug") as job:
        for part in parts:
            setup.send(part)
            want = len(setup.reference(RULES, drain=False).enriched)
            job.wait_for(partial(_has_enriched, setup, want), f"{want} records")
        done = stop(job)
    assert done.code == 0, done.err
    check_log(done, setup)
    setup.check_output(RULES, drain=False)


def check_log(done: Finished, setup: Setup) -> None:
    """All that the run told is a line of the log, and none is about a user."""
    lines = impersonal(done.err, setup.inputs()[0])
    assert {line["service"] for line in lines} == {"money-enrichment"}
    epoch = Checkpoint(str(setup.checkpoint)).epoch()
    batches = [line for line in lines if line["event"] == "batch"]
    assert [line["version"] for line in batches] == [f"{epoch}/{line['batch']}" for line in batches]
    assert lines[0]["event"] == "started"
    assert (lines[-1]["event"], lines[-1]["batch"]) == ("ended", done.totals["batch"])
    assert sum(line["records"] for line in batches) == lines[-1]["records"] == done.totals["records"]


def _has_enriched(setup: Setup, n: int) -> bool:
    """The job itself creates the topic."""
    return n == 0 or (ENRICHED in setup.topics() and len(setup.enriched()) >= n)
