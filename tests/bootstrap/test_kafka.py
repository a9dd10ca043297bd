"""From a log in memory: directly, through an archive, and first from one and then from the other, it is the same."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from moneystate.bootstrap.archive import ArchiveOptions, Archiver
from moneystate.bootstrap.files import FORMATS
from moneystate.bootstrap.layout import NOTE, read_note
from moneystate.engine.processor import Rejected
from moneystate.errors import ArchiveError, ConfigError, MoneystateError, RetentionError
from moneystate.kafka.offsets import log_ends
from moneystate.savepoint.format import Savepoint
from tests.bootstrap.harness import bootstrap
from tests.enrichment import topics
from tests.enrichment.jobs import DECODER, Rules, enrichment_job
from tests.job.harness import Setup, small_workload
from tests.kafka.logs import Cluster
from tests.local.in_memory import InMemory
from tests.reference import model

RULES = Rules()
WALLET = "wallet-events"


@pytest.fixture
def logs(in_memory: InMemory) -> Setup:
    """Topics with a small workload, and a transaction of which nothing remains but gaps."""
    setup = in_memory
    setup.create_inputs()
    records = small_workload("--events", "300")
    middle = len(records) // 2
    setup.send(records[:middle])
    cluster = Cluster(setup.bootstrap_servers, setup.prefix)
    cluster.transaction(setup.prefix + WALLET, [b"aborted"] * 5, commit=False)
    setup.send(records[middle:])
    cluster.transaction(setup.prefix + WALLET, [b"no event"], partition=1)
    return setup


def from_kafka(setup: Setup, name: str, **more: Any) -> Savepoint:
    options = {"sources": ["kafka"], "max_records_per_chunk": 400, **more}
    return bootstrap(
        RULES, setup.folder / name, bootstrap_servers=setup.bootstrap_servers, topic_prefix=setup.prefix, **options
    )


def from_archive(setup: Setup, name: str, folder: Path | str) -> Savepoint:
    return bootstrap(RULES, setup.folder / name, topic_prefix=setup.prefix, sources=[str(folder)])


def archive(setup: Setup, folder: Path | str, **more: Any) -> Archiver:
    options = ArchiveOptions(setup.bootstrap_servers, str(folder), setup.prefix, **{"records_per_file": 40, **more})
    archiver = Archiver(options, enrichment_job(RULES).inputs, DECODER)
    archiver.run(lambda done: None)
    return archiver


def offsets_file(setup: Setup, share: float) -> Path:
    """A cut in each partition at this share of its log."""
    places = [(setup.prefix + t, p) for t in model.TIMED_TOPICS for p in range(setup.partitions)]
    cut: dict[str, dict[str, int]] = {}
    for (topic, partition), end in log_ends(setup.admin(), places).items():
        cut.setdefault(topic.removeprefix(setup.prefix), {})[str(partition)] = int(end * share)
    path = setup.folder / f"cut-{share}.json"
    path.write_text(json.dumps(cut))
    return path


def test_kafka_an_archive_and_both_in_turn_give_the_same_state_and_plan(logs: Setup) -> None:
    want = from_kafka(logs, "kafka").manifest
    assert want.plan is not None
    for file_format in FORMATS:
        archive(logs, logs.folder / file_format, file_format=file_format)
        made = from_archive(logs, f"from-{file_format}", logs.folder / file_format).manifest
        assert (made.fingerprint, made.plan, made.counts) == (want.fingerprint, want.plan, want.counts)
    archive(logs, logs.folder / "half", as_of=str(offsets_file(logs, 0.5)))
    joined = from_kafka(logs, "joined", sources=["kafka", str(logs.folder / "half")]).manifest
    assert (joined.fingerprint, joined.plan) == (want.fingerprint, want.plan)
    cut = str(offsets_file(logs, 0.7))
    one = from_kafka(logs, "one", sources=["kafka", str(logs.folder / "half")], as_of=cut).manifest
    other = from_kafka(logs, "other", as_of=cut).manifest
    assert (one.fingerprint, one.plan) == (other.fingerprint, other.plan)
    assert one.fingerprint != want.fingerprint


def test_an_archive_goes_on_where_it_ended(logs: Setup) -> None:
    folder = logs.folder / "archive"
    archive(logs, folder, as_of=str(offsets_file(logs, 0.3)))
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.avro")}
    archive(logs, folder)
    assert before == {path: path.stat().st_mtime_ns for path in before}
    made = from_archive(logs, "archived", folder).manifest
    assert made.fingerprint == from_kafka(logs, "kafka").manifest.fingerprint
    assert not list(folder.rglob("*.tmp"))


def test_what_a_killed_run_did_not_list_is_archived_again(logs: Setup) -> None:
    folder = logs.folder / "archive"
    archive(logs, folder, as_of=str(offsets_file(logs, 0.3)))
    last = max((folder / WALLET / "0").glob("*.avro"))
    beyond = 1 + int(last.stem.partition("-")[2])
    left = last.with_name(f"{beyond:020d}-{beyond + 2:020d}.avro")  # up to what was the log's end then
    left.write_bytes(last.read_bytes())
    with pytest.raises(ArchiveError, match="finish the archive"):
        from_archive(logs, "unfinished", folder)
    archive(logs, folder)
    assert not left.exists()
    from_archive(logs, "archived", folder)


def test_an_archive_that_begins_later_carries_the_high_before_it(logs: Setup) -> None:
    cut = offsets_file(logs, 0.5)
    archive(logs, logs.folder / "later", starting_offsets=str(cut))
    note = read_note(logs.folder / "later" / WALLET / "0")
    assert note is not None
    assert note.start == json.loads(cut.read_text())[WALLET]["0"]
    assert note.initial_high == high_before(logs, note.start)
    from_archive(logs, "later-savepoint", logs.folder / "later")


def high_before(setup: Setup, end: int) -> int:
    """The highest event time of the first records of a partition."""
    high = 0
    for record in setup.inputs()[0]:
        if (record.topic, record.partition) == (WALLET, 0) and record.offset < end:
            with contextlib.suppress(Rejected):
                high = max(high, DECODER.decode(topics.WALLET_EVENTS, record.value or b"")[1])
    return high


def test_logs_that_do_not_begin_at_their_beginning_need_a_word_for_it(logs: Setup) -> None:
    cluster = Cluster(logs.bootstrap_servers, logs.prefix)
    archive(logs, logs.folder / "half", as_of=str(offsets_file(logs, 0.5)))
    cluster.delete_before(logs.prefix + WALLET, 20)
    with pytest.raises(RetentionError, match=WALLET):
        from_kafka(logs, "kafka")
    with pytest.raises(RetentionError, match=WALLET):
        archive(logs, logs.folder / "archive")
    assert not (logs.folder / "archive").exists()
    highs = logs.folder / "highs.json"
    highs.write_text(json.dumps({WALLET: {"0": None}}))
    from_kafka(logs, "kafka", initial_highs=highs)
    from_kafka(logs, "both", sources=["kafka", str(logs.folder / "half")])  # the archive has what Kafka lost


def test_an_archive_of_another_topic_is_not_gone_on_with(logs: Setup) -> None:
    folder = logs.folder / "archive"
    archive(logs, folder)
    note = folder / WALLET / "0" / NOTE
    content = json.loads(note.read_text())
    note.write_text(json.dumps({**content, "topicId": "other"}))
    with pytest.raises(MoneystateError, match=WALLET):
        archive(logs, folder)
    with pytest.raises(MoneystateError, match=WALLET):
        from_archive(logs, "savepoint", folder)


def test_cuts_outside_the_logs_are_refused(logs: Setup) -> None:
    far = logs.folder / "far.json"
    far.write_text(json.dumps({WALLET: {"0": 10**9}}))
    with pytest.raises(ConfigError):
        from_kafka(logs, "kafka", as_of=str(far))
    with pytest.raises(ConfigError):
        archive(logs, logs.folder / "archive", as_of=str(far))
    assert sorted(path.suffix for path in logs.folder.iterdir()) == [".json"]
