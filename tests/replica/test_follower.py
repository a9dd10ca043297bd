"""The follower on a real broker: what of a changelog can be read, and when."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from moneystate.replica import files
from moneystate.replica.files import Secondary
from moneystate.replica.model import Item, Pruned, Version
from moneystate.replica.shared_status import SharedStatusFile
from moneystate.replica.snapshot import Snapshot
from moneystate.replica.view import ReplicaView
from services.enrichment import service
from tests.enrichment.topics import CHANGELOG
from tests.kafka.logs import Cluster
from tests.replica.changelog import Change, Replica, Writer, is_ready, until
from tests.replica.states import MODEL, State, changes, entries, forgotten, key_of

MakeReplica = Callable[..., Replica]
USERS = [f"user-{n}".encode() for n in range(12)]


def puts(country: str, users: list[bytes] = USERS) -> list[Change]:
    return [change for user in users for change in changes({}, entries(user, State(country=country)))]


def folder_of(replica: Replica) -> Path:
    return files.folder(replica.data, files.generation(replica.data) or "")


def users(snapshot: Snapshot) -> list[Item]:
    return list(snapshot.keys(snapshot.plan.kinds["user"], b"", b"", b"", 100, None).items)


def countries(snapshot: Snapshot) -> set[str]:
    return {user.record.info.resident_country_code for user in users(snapshot)}


def of_country(snapshot: Snapshot, country: str) -> set[bytes]:
    return {user.owner for user in users(snapshot) if user.record.info.resident_country_code == country}


def test_what_was_there_before_the_replica_is_its_first_version(cluster: Cluster, replica_of: MakeReplica) -> None:
    writer = Writer(cluster)
    for n, country in enumerate(["ES", "FR", "PT"]):
        last = writer.batch(n, puts(country), watermark=n)
    replica = replica_of()
    snapshot = replica.latest(last)
    assert countries(snapshot) == {"PT"}
    assert snapshot.header.watermark_ms == 2
    with pytest.raises(Pruned):
        replica.reader.at_version(Version("one", 1))
    status = replica.reader.status()
    assert (status.keys, status.key_groups) == (len(USERS), 8)
    until(lambda: replica.reader.status().lag_records == 0, "no lag")


def test_the_follower_has_a_handle_of_its_own_on_each_file(cluster: Cluster, replica_of: MakeReplica) -> None:
    """So that a file that it deletes is not a reader's to clean up (tests/replica/test_deferred_close.py)."""
    writer = Writer(cluster)
    last = writer.batch(0, puts("ES"))
    replica = replica_of()
    replica.latest(last)
    assert replica.process is not None
    follower = psutil.Process(replica.process.pid)

    def are_held() -> bool:
        opened = Counter(Path(path) for path, *_ in follower.open_files())
        there = [file for kind in ("*.sst", "*.log") for file in (folder_of(replica) / "db").glob(kind)]
        return {file.suffix for file in there} == {".sst", ".log"} and all(opened[file] == 2 for file in there)

    until(are_held, "RocksDB's handles, and one more for each file")


def test_a_version_is_seen_once_all_its_transactions_are_in_and_never_by_halves(
    cluster: Cluster, replica_of: MakeReplica
) -> None:
    writer = Writer(cluster, partitions=1)
    first = writer.batch(0, puts("ES"))
    replica = replica_of()
    replica.latest(first)
    for output in range(2):  # both are under way in the one partition of the changelog
        writer.begin(output, puts("FR"))
    writer.end(1, 1)
    until(lambda: countries(replica.at(first)) == {"ES"}, "the version before")
    assert replica.reader.newest() == first
    writer.end(0, 1)
    assert countries(replica.latest(Version("one", 1))) == {"FR"}
    assert countries(replica.at(first)) == {"ES"}
    assert countries(replica.reader.at_version(first)) == {"ES"}


def test_aborted_transactions_and_groups_without_changes_change_nothing(
    cluster: Cluster, replica_of: MakeReplica
) -> None:
    writer = Writer(cluster)
    replica = replica_of()
    writer.batch(0, puts("ES"))
    writer.begin(0, puts("XX"))
    writer.abort(0)
    only = USERS[:1]
    last = writer.batch(1, puts("FR", only))
    snapshot = replica.latest(last)
    assert of_country(snapshot, "FR") == {b"user-0"}
    assert countries(snapshot) == {"ES", "FR"}


def test_a_kill_at_any_time_costs_catching_up_and_nothing_else(cluster: Cluster, replica_of: MakeReplica) -> None:
    writer = Writer(cluster, counted=True)
    replica = replica_of()
    replica.latest(writer.batch(0, puts("C0")))
    for n in range(1, 12):
        last = writer.batch(n, puts(f"C{n}"), watermark=n)
        if n in (2, 5, 9):
            replica.at(Version("one", n - 1))
            replica.kill()
            replica.start()
    assert countries(replica.latest(last)) == {"C11"}
    for n in range(12):
        assert countries(replica.reader.at_version(Version("one", n))) == {f"C{n}"}


def test_versions_that_came_while_it_was_away_are_skipped_where_the_log_does_not_say_that_they_are_whole(
    cluster: Cluster, replica_of: MakeReplica
) -> None:
    writer = Writer(cluster)
    replica = replica_of()
    first = writer.batch(0, puts("C0"))
    replica.latest(first)
    replica.kill()
    for n in range(1, 4):
        last = writer.batch(n, puts(f"C{n}"))
    replica.start()
    assert countries(replica.latest(last)) == {"C3"}
    assert countries(replica.reader.at_version(first)) == {"C0"}
    with pytest.raises(Pruned):
        replica.reader.at_version(Version("one", 2))


def test_a_batch_that_compaction_has_made_holes_in_cannot_be_read_and_the_next_can(
    cluster: Cluster, replica_of: MakeReplica
) -> None:
    writer = Writer(cluster, partitions=1, outputs=1)
    first = writer.batch(0, puts("ES"))
    replica = replica_of()
    replica.latest(first)
    writer.begin(0, puts("FR", USERS[:6]))
    writer.end(0, 1, records=7)  # there was one more
    assert countries(replica.latest(Version("one", 1))) == {"ES", "FR"}, "nothing else is in the log: it is the state"
    writer.begin(0, puts("PT", USERS[:6]))
    writer.end(0, 2, records=7)
    writer.begin(0, puts("PT", USERS[6:]))
    writer.end(0, 3, records=6)
    assert countries(replica.latest(Version("one", 3))) == {"PT"}


def test_a_version_with_holes_stays_out_of_reach_after_a_kill(cluster: Cluster, replica_of: MakeReplica) -> None:
    writer = Writer(cluster, partitions=1, outputs=1)
    first = writer.batch(0, puts("ES"))
    replica = replica_of()
    replica.latest(first)
    writer.begin(0, puts("FR", USERS[:6]))
    writer.end(0, 1, records=7)
    writer.begin(0, puts("PT"))  # the log is not quiet: what was before this is not settled
    until(lambda: replica.reader.status().lag_records == 0, "all that is committed to be in")
    replica.kill()
    replica.start()
    writer.end(0, 2, records=len(USERS))
    assert countries(replica.latest(Version("one", 2))) == {"PT"}
    with pytest.raises(Pruned):
        replica.reader.at_version(Version("one", 1))


def test_what_compaction_took_from_a_batch_is_missing_until_the_record_that_replaced_it(
    cluster: Cluster, replica_of: MakeReplica
) -> None:
    """Batches in between are whole by their counts, and yet cannot be read."""
    writer = Writer(cluster, partitions=1, outputs=1)
    replica = replica_of()
    first = writer.batch(0, puts("ES"))
    replica.latest(first)
    replica.kill()
    writer.begin(0, puts("FR", USERS[1:]))
    writer.end(0, 1, records=len(USERS))  # that of the first user is gone
    writer.begin(0, puts("PT", USERS[1:2]))
    writer.end(0, 2, records=1)
    writer.begin(0, puts("PT", USERS[:1]))  # by this
    writer.end(0, 3, records=1)
    replica.start()
    assert countries(replica.latest(Version("one", 3))) == {"FR", "PT"}
    for number in (1, 2):
        with pytest.raises(Pruned):
            replica.reader.at_version(Version("one", number))


def test_a_changelog_that_is_made_anew_is_read_anew(cluster: Cluster, replica_of: MakeReplica) -> None:
    writer = Writer(cluster)
    replica = replica_of()
    replica.latest(writer.batch(4, puts("ES")))
    replica.stop()
    cluster.delete(writer.topic)
    again = Writer(cluster)
    last = again.batch(0, puts("FR", USERS[:2]), epoch="two")
    replica.start()
    snapshot = replica.latest(last)
    assert [user.owner for user in users(snapshot)] == [b"user-0", b"user-1"]


def user_ids(snapshot: Snapshot) -> set[bytes]:
    return {user.owner for user in users(snapshot)}


def test_partitions_that_are_added_to_the_changelog_lose_no_user(cluster: Cluster, replica_of: MakeReplica) -> None:
    """The job goes on in those that it chose among, and says so; a replica is there meanwhile, another one comes."""
    writer = Writer(cluster, rules={})
    replica = replica_of()
    replica.latest(writer.batch(0, puts("ES")))
    cluster.grow({CHANGELOG: 3})
    last = writer.batch(1, puts("FR", USERS[:6]))
    for one in (replica, replica_of()):
        assert user_ids(one.latest(last)) == set(USERS)
        assert countries(one.latest(last)) == {"ES", "FR"}


NOTHING_SAID = pytest.param(None, id="a job that says nothing of partitions", marks=pytest.mark.long)


@pytest.mark.parametrize("rules", [NOTHING_SAID, pytest.param({}, id="one that does")])
def test_a_changelog_with_entries_where_they_do_not_belong_is_not_answered_from(
    cluster: Cluster, replica_of: MakeReplica, rules: dict[str, int] | None
) -> None:
    """A job that went by the new number of partitions has left entries where readers do not look. Once all of the state
    is written again, they are right."""
    writer = Writer(cluster, rules=rules)
    replica = replica_of()
    replica.latest(writer.batch(0, puts("ES")))
    cluster.grow({CHANGELOG: 3})
    writer.restart(partitions=3)
    writer.batch(1, puts("FR", USERS[:6]))
    loads = {files.generation(replica.data)}

    def loaded_in_vain() -> bool:
        loads.add(files.generation(replica.data))
        replica.reader.newest()
        return len(loads) == 3  # it has begun to load the log as it is, and once more

    until(loaded_in_vain, "a load that ended with a refusal")
    assert not is_ready(replica.reader)
    assert not replica.reader.status().caught_up
    for output in range(2):
        writer.begin(output, puts("PT"))
        writer.move(output, puts("PT"), before=2)
        writer.end(output, -1, epoch="two")
    last = Version("two", -1)
    assert user_ids(replica.latest(last)) == set(USERS)
    assert countries(replica.latest(last)) == {"PT"}


def test_one_that_was_away_for_too_long_is_built_anew(cluster: Cluster, replica_of: MakeReplica) -> None:
    """The log may have lost the tombstones of users that went meanwhile."""
    writer = Writer(cluster, delete_retention_ms="4000")
    replica = replica_of()
    first = writer.batch(0, puts("ES"))
    replica.latest(first)
    until(lambda: replica.reader.status().caught_up, "caught up")
    replica.kill()
    killed = time.monotonic()
    last = writer.batch(1, puts("FR"))
    until(lambda: time.monotonic() - killed > 2.1, "more than half of the retention")
    replica.start()
    assert countries(replica.latest(last)) == {"FR"}
    with pytest.raises(Pruned):
        replica.reader.at_version(first)


def test_history_goes_by_the_number_of_versions(cluster: Cluster, replica_of: MakeReplica) -> None:
    writer = Writer(cluster)
    replica = replica_of(history_versions=2)
    replica.latest(writer.batch(0, puts("ES")))
    for n in range(1, 5):
        last = writer.batch(n, puts(f"C{n}"))
    replica.latest(last)

    def oldest() -> int:
        replica.reader.newest()
        version = replica.reader.status().oldest
        return -1 if version is None else version.batch

    until(lambda: oldest() == 3, "two versions")
    assert countries(replica.at(Version("one", 3))) == {"C3"}
    with pytest.raises(Pruned):
        replica.reader.at_version(Version("one", 1))


def test_a_forgotten_user_is_gone_from_all_versions(cluster: Cluster, replica_of: MakeReplica) -> None:
    writer = Writer(cluster)
    replica = replica_of()
    there = entries(b"user-0", State(country="ES", birth_year="1980", sessions=(("s-1", 1 << 40),)))
    first = writer.batch(0, [*puts("FR", USERS[1:]), *changes({}, there)])
    assert [owner for owner, *_ in ReplicaView(replica.latest(first)).find(service.by_session, "s-1")] == ["user-0"]
    last = writer.batch(1, [*changes(there, {}), *forgotten(b"user-0", "r-1", 5).items()])
    newest = replica.latest(last)
    again = replica_of().latest(last)
    for one in (newest, again):
        assert one.record(MODEL.plan.kinds["forgotten"], b"user-0").request_id == "r-1"
    for snapshot in (replica.reader.at_version(first), newest, again):
        assert user_ids(snapshot) == set(USERS[1:])
        assert list(ReplicaView(snapshot).find(service.by_session, "s-1")) == []


def test_a_new_epoch_begins_with_its_whole_state_and_strays_are_of_no_account(
    cluster: Cluster, replica_of: MakeReplica
) -> None:
    """Its version is batch -1: more records than its end says, in several transactions, and tombstones in partitions
    of the changelog where a key has stood before."""
    writer = Writer(cluster)
    replica = replica_of()
    first = writer.batch(7, puts("ES"), watermark=70)
    replica.latest(first)
    gone, remaining = USERS[:4], USERS[4:]
    for output in range(2):
        writer.begin(output, puts("FR", remaining[:3]))
        writer.stray(output, remaining)
        writer.commit(output)
        writer.begin(output, [*puts("FR", remaining), *((key_of("user", user), None) for user in gone)])
        writer.end(output, -1, watermark=30, epoch="two", records=0)
    begun = Version("two", -1)
    assert of_country(replica.latest(begun), "FR") == set(remaining)
    last = writer.batch(0, puts("PT", remaining[:1]), watermark=40, epoch="two")
    assert countries(replica.latest(last)) == {"FR", "PT"}
    assert replica.reader.at_time(40).header.version == last
    assert replica.reader.at_time(35).header.version == begun
    assert countries(replica.reader.at_version(first)) == {"ES"}
    again = replica_of()
    assert countries(again.latest(last)) == {"FR", "PT"}, "strays are of no account in a first load either"


def test_a_reader_that_missed_a_version_finds_it_at_the_next_look(
    cluster: Cluster, replica_of: MakeReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As beside a flush: RocksDB lists the files while the follower moves what they have."""
    writer = Writer(cluster)
    replica = replica_of()
    replica.latest(writer.batch(0, puts("ES")))
    missed = 0
    catch_up = Secondary.catch_up

    def miss_the_first(self: Secondary) -> None:
        nonlocal missed
        missed += 1
        if missed > 1:
            catch_up(self)

    monkeypatch.setattr(Secondary, "catch_up", miss_the_first)
    assert countries(replica.latest(writer.batch(1, puts("FR")))) == {"FR"}
    assert missed > 1


def test_a_reader_whose_files_go_from_under_it_takes_those_that_came_instead(
    cluster: Cluster, replica_of: MakeReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(cluster)
    replica = replica_of()
    replica.latest(writer.batch(0, puts("ES")))
    replica.stop()
    reader: Any = replica.reader
    # what the follower still wrote is taken over: the next look at the files is the one that finds them gone
    until(
        lambda: reader.newest() and reader.status_seen.written == SharedStatusFile(folder_of(replica)).read().written,
        "all rows",
    )
    old = reader.db
    catch_up = Secondary.catch_up

    def gone(self: Secondary) -> None:
        if self is old:
            raise OSError("No such file or directory")
        catch_up(self)

    monkeypatch.setattr(Secondary, "catch_up", gone)
    cluster.delete(writer.topic)
    again = Writer(cluster)
    replica.start()
    assert countries(replica.latest(again.batch(0, puts("FR"), epoch="two"))) == {"FR"}
