"""Loads of files into a real topic: what readers of it see, also of loads that are killed, fenced or refused. Only
Kafka's transactions can leave half a load or none."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest
from confluent_kafka import Producer

from moneystate.errors import InstanceError, SourceError
from moneystate.kafka.topics import TopicSpec, ensure_topics
from moneystate.tables.columns import Declared
from moneystate.tables.files import POLL_S, FileSource
from moneystate.tables.loading import Choices, OnError
from moneystate.tables.rows import Read
from moneystate.tables.writer import TableWriter
from tests.tables.harness import Site
from tests.waiting import until

SKU = Declared(("sku",))
OLD = 1_000_000_000
STEPS = ("opened", "caught up", "compared", "written", "committed")


def write(path: Path, *lines: str) -> None:
    """A file that is at rest."""
    path.write_text("".join(f"{line}\n" for line in ("sku,cents", *lines)))
    os.utime(path, (OLD + path.stat().st_size, OLD))


@pytest.fixture
def path(site: Site) -> Path:
    return site.folder / "prices.csv"


def test_a_load_writes_what_differs_and_says_in_each_partition_that_it_is_whole(site: Site, path: Path) -> None:
    reader, loader = site.create(), site.loader(FileSource(path, None, SKU))
    write(path, "a,1", "b,2", "c,3")
    loader.load()
    assert reader.read() == {key: {"sku": key, "cents": cents} for key, cents in (("a", "1"), ("b", "2"), ("c", "3"))}
    write(path, "a,1", "b,20", "d,4")
    load = loader.load()
    assert reader.read() == {key: {"sku": key, "cents": cents} for key, cents in (("a", "1"), ("b", "20"), ("d", "4"))}
    assert reader.written == 3 + 3
    assert sorted(partition for partition, _ in reader.loaded) == [0, 0, 1, 1]
    record = reader.loaded[-1][1]
    assert record.pop("loadedAt").endswith("Z")
    assert record == {"rows": 3, "changed": 2, "deleted": 1, "source": load.source}
    assert load.source.startswith("prices.csv, 23 bytes, ")


def test_digests_are_built_again_from_the_topic(site: Site, path: Path) -> None:
    """Where the folder is gone, and where another loader has written meanwhile."""
    reader = site.create()
    first, second = (site.loader(FileSource(path, None, SKU), home=name) for name in ("one", "two"))
    write(path, "a,1", "b,2")
    assert first.load().counts.changed == 2
    assert second.load().counts.changed == 0
    write(path, "a,1", "b,3")
    assert second.load().counts.changed == 1
    reader.read()
    assert reader.written == 3


def test_a_row_of_an_older_partitioning_is_deleted_and_changed(site: Site, path: Path) -> None:
    """A topic that gets more partitions has records of one key in two of them."""
    site.create(1)
    loader = site.loader(FileSource(path, None, SKU))
    rows = [f"{n},1" for n in range(20)]
    write(path, *rows)
    loader.load()
    ensure_topics(site.admin, [TopicSpec(site.topic, 3, at_least=True)], create=True)
    write(path, *[f"{n},2" for n in range(10)])
    changed = site.loader(FileSource(path, None, SKU), Choices(allow_deletes=True), home="other")
    assert changed.load().counts.deleted == 10
    again = site.loader(FileSource(path, None, SKU), home="third")
    counts = again.load().counts
    assert (counts.rows, counts.changed, counts.deleted, counts.known) == (10, 0, 0, 10)


def test_a_topic_that_was_made_again_is_loaded_again(site: Site, path: Path) -> None:
    site.create()
    loader = site.loader(FileSource(path, None, SKU))
    write(path, "a,1")
    loader.load()
    site.admin.delete_topics([site.topic])[site.topic].result()
    until(lambda: site.topic not in site.admin.list_topics().topics, lambda: "the topic is still there", 30)
    reader = site.create()
    site.loader(FileSource(path, None, SKU), home="other").load()
    assert loader.topic == site.topic
    assert reader.read() == {"a": {"sku": "a", "cents": "1"}}


def test_a_second_loader_ends_the_first_or_is_refused(site: Site, path: Path) -> None:
    reader = site.create()
    source = FileSource(path, None, SKU)
    first = site.loader(source)
    write(path, "a,1")
    first.load()
    with pytest.raises(InstanceError):
        site.loader(source)  # on the same machine, with the same folder
    site.loader(source, home="elsewhere").load()
    write(path, "a,2")
    with pytest.raises(InstanceError) as raised:
        first.load()
    assert "\n" not in str(raised.value)
    assert reader.read() == {"a": {"sku": "a", "cents": "1"}}


def test_another_writer_that_takes_over_in_the_middle_leaves_no_trace_of_the_load(site: Site, path: Path) -> None:
    reader = site.create()

    class Between(FileSource):
        def read(self, file: BinaryIO) -> Iterator[Read]:
            yield from super().read(file)
            TableWriter(site.bootstrap_servers, {}, site.topic).open()

    write(path, "a,1")
    with pytest.raises(InstanceError):
        site.loader(Between(path, None, SKU)).load()
    assert reader.read() == {}
    assert reader.loaded == []


def test_rows_that_cannot_be_loaded_end_the_load_or_stay_as_the_topic_has_them(site: Site, path: Path) -> None:
    reader = site.create()
    declared = Declared(("sku",), types={"cents": "int"})
    write(path, "a,1", "b,2", "c,3", "d,4")
    strict = site.loader(FileSource(path, None, declared))
    strict.load()
    before = dict(reader.read())
    write(path, "a,x", "b,20", "c,30", "c,31")
    with pytest.raises(SourceError):
        strict.load()
    assert reader.read() == before
    lenient = site.loader(FileSource(path, None, declared), Choices(OnError.skip), home="other")
    assert lenient.load().skipped == 2
    assert {key: row["cents"] for key, row in reader.read().items()} == {"a": 1, "b": 20, "c": 3}
    write(path, "a,1", ",5", "b,21")
    load = lenient.load()
    assert (load.counts.held_back, load.counts.deleted) == (1, 0)  # the row without a key may be c
    assert {key: row["cents"] for key, row in reader.read().items()} == {"a": 1, "b": 21, "c": 3}


def test_deletions_that_look_like_a_mistake_write_nothing(site: Site, path: Path) -> None:
    reader = site.create()
    loader = site.loader(FileSource(path, None, SKU))
    write(path, *[f"{n},1" for n in range(40)])
    loader.load()
    write(path, *[f"{n},2" for n in range(29)])
    with pytest.raises(SourceError):
        loader.load()
    write(path)
    with pytest.raises(SourceError):
        loader.load()
    reader.read()
    assert (len(reader.rows), reader.written, len(reader.loaded)) == (40, 40, 2)
    site.loader(FileSource(path, None, SKU), Choices(allow_deletes=True), home="other").load()
    assert reader.read() == {}


def test_a_kill_after_a_telling_step_leaves_no_trace_of_the_load(site: Site, path: Path) -> None:
    kill_after_each(site, path, ("written", "committed"))


@pytest.mark.long
def test_a_kill_after_any_step_leaves_no_trace_of_the_load(site: Site, path: Path) -> None:
    kill_after_each(site, path, STEPS)


def kill_after_each(site: Site, path: Path, steps: tuple[str, ...]) -> None:
    """Kills the command as a process of its own. What is committed is whole."""
    reader = site.create()
    write(path, "a,1", "b,2")
    site.loader(FileSource(path, None, SKU), home="first").load()
    for n, step in enumerate(steps):
        before = dict(reader.read())
        loaded = len(reader.loaded)
        write(path, f"a,{n + 10}", f"new {n},1")
        reached = site.folder / f"reached {n}"
        process = site.start(str(path), "--key", "sku", MONEYSTATE_PAUSE_AT=step, MONEYSTATE_PAUSE_FILE=str(reached))
        site.until(lambda reached=reached, process=process: reached.exists() or process.poll() is not None, step)
        assert process.poll() is None, site.log()
        process.kill()
        process.wait()
        if step != "committed":
            assert site.reader().read(waits=False) == before
        site.loader(FileSource(path, None, SKU), home=f"after {n}").load()
        assert reader.read() == {
            "a": {"sku": "a", "cents": str(n + 10)}, f"new {n}": {"sku": f"new {n}", "cents": "1"},
        }  # fmt: skip
        assert len(reader.loaded) == loaded + (4 if step == "committed" else 2)
    own = site.loader(FileSource(path, None, SKU), home="home")  # what the killed processes have left
    assert own.load().counts.changed == 0
    assert [folder.name for folder in (site.folder / "home").iterdir()] == ["digests"]


class Author:
    """Writes one version of a file after the other, in pieces or under another name. It goes on while the loader waits
    or reads, and pauses in the middle of a file for less than a file must be at rest."""

    ROWS = 4_000  # more than one read of the file gives
    REST_S = 60.0  # the loader waits without sleeping
    MOST_WAITS = int(0.9 * REST_S / POLL_S)

    def __init__(self, path: Path) -> None:
        self._path = path
        self._chance = random.Random(1)
        self._version = 0
        self._left = ""
        self._paused = 0

    def step(self, begins: float = 0.0005) -> None:
        if self._left:
            self._paused += 1
            if self._paused >= self.MOST_WAITS or self._chance.random() < 0.01:
                self._write()
        elif self._chance.random() < begins:
            self._version += 1
            lines = ["sku,version", *[f"{n},{self._version}" for n in range(self.ROWS)]]
            self._left = "".join(f"{line}\n" for line in lines)
            if self._chance.random() < 0.3:
                other = self._path.with_name("other")
                other.write_text(self._left)
                other.rename(self._path)
                self._left = ""
            else:
                self._path.write_text("")
                self._write()

    def _write(self) -> None:
        end = self._chance.randint(1, len(self._left))
        with self._path.open("a") as file:
            file.write(self._left[:end])
        self._left, self._paused = self._left[end:], 0


class BesideAuthor(FileSource):
    """A file whose author goes on while it is read."""

    def __init__(self, path: Path, author: Author) -> None:
        super().__init__(path, None, SKU, wait=lambda _: author.step(), rest_s=author.REST_S)
        self._author = author

    def read(self, file: BinaryIO) -> Iterator[Read]:
        for row in super().read(file):
            self._author.step(begins=0.0002)
            yield row


def test_a_file_that_is_written_all_the_time_is_never_loaded_by_half(site: Site, path: Path) -> None:
    reader, author = site.create(), Author(path)
    author.step(begins=1.0)
    loader = site.loader(BesideAuthor(path, author))
    versions: set[str] = set()
    refused = 0
    while len(versions) < 10:
        try:
            loader.load()
        except SourceError:
            refused += 1
            continue
        rows = reader.read()
        assert len(rows) == author.ROWS
        (version,) = {row["version"] for row in rows.values()}
        versions.add(version)
    assert refused > 0


def test_a_load_compares_with_what_readers_do_not_see_yet(site: Site, path: Path) -> None:
    """As its own last load, whose commit has returned before its end is in all partitions."""
    site.create()
    settings = {"transactional.id": f"{site.topic}-other", "partitioner": "murmur2_random"}
    producer = Producer({"bootstrap.servers": site.bootstrap_servers, **settings})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(site.topic, b'{"sku":"z"}', b"z")
    producer.flush()
    later = threading.Timer(1.0, producer.commit_transaction)
    later.start()
    write(path, "a,1")
    assert site.loader(FileSource(path, None, SKU)).load().counts.deleted == 1
    later.join()


def test_rows_that_others_have_written_are_deleted(site: Site, path: Path) -> None:
    reader = site.create()
    producer = Producer({"bootstrap.servers": site.bootstrap_servers, "partitioner": "murmur2_random"})
    producer.produce(site.topic, b'{"sku":"z"}', b"z")
    producer.flush()
    write(path, "a,1")
    assert site.loader(FileSource(path, None, SKU)).load().counts.deleted == 1
    assert reader.read() == {"a": {"sku": "a", "cents": "1"}}


def test_it_stays_and_watches_a_file(site: Site, path: Path) -> None:
    reader = site.create()
    process = site.start(str(path), "--key", "sku", "--watch")
    site.until(lambda: "expected a file that can be read" in site.log(), "that there is no file")
    write(path, "a,1")
    site.until(lambda: reader.read() == {"a": {"sku": "a", "cents": "1"}}, "the first load")
    other = path.with_name("other")
    write(other, "a,2")
    other.rename(path)
    site.until(lambda: reader.read() == {"a": {"sku": "a", "cents": "2"}}, "the second load")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0, site.log()
