"""Transaction mode, rule by rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.reference.changes.connector import Message
from tests.services.changes.driver import tables_with
from tests.services.changes.story import Story, broken, is_end, is_of

WAIT_MS = 60_000


def test_transactions_are_told_in_the_order_of_their_ends() -> None:
    story = Story()
    first = story.transaction(story.rename("Eva"))
    second = story.transaction(story.choose(story.maths))
    rows = [message for message in first if is_of("student")(message)]
    story.send([*[message for message in first if message not in rows], *second])
    assert story.told() == []
    story.send(rows)
    assert story.told() == ["updated TRANSACTION", "change TRANSACTION"]
    assert story.last()["student"]["name"] == "Eva"
    story.driver.bench.end()


def test_what_lacks_rows_goes_on_without_them_after_its_wait() -> None:
    story = Story()
    story.send(story.transaction(story.rename("Eva"), story.choose(story.maths)), without=is_of("student"))
    story.wait(WAIT_MS - 100)
    assert story.told() == []
    (lacking,) = story.driver.bench.ask(story.driver.changes.service.queries["open_transactions"])
    assert (lacking.counts, lacking.lacks) == ({"enrolment": 1}, {"student": 1})
    story.wait(200)
    assert story.told() == ["change INCOMPLETE"]
    assert story.driver.bench.ask(story.driver.changes.service.queries["open_transactions"]) == []
    story.driver.bench.end()


def test_a_transaction_waits_from_its_own_end_on() -> None:
    story = Story()
    story.send(story.transaction(story.rename("Eva")), without=is_of("student"))
    story.wait(WAIT_MS - 1_000)
    story.send(story.transaction(story.rename("Evi")), without=is_of("student"))
    story.send(story.transaction(story.choose(story.maths)))
    story.wait(2_000)
    assert story.told() == []  # the second one still waits, the third behind it
    story.wait(WAIT_MS)
    assert story.told() == ["change TRANSACTION"]


def test_a_late_row_is_told_and_written_unless_a_later_transaction_changed_it() -> None:
    story = Story()
    lacking = story.transaction(story.rename("Eva"), story.choose(story.maths))
    late = [message for message in lacking if is_of("student")(message)]
    story.send(lacking, without=is_of("student"))
    story.wait(WAIT_MS)
    story.send(late)
    story.send(late)
    assert story.told() == ["change INCOMPLETE", "lateTransaction INCOMPLETE"]
    assert story.last()["after"] == {"id": 1, "name": "Eva", "bio": "a long text"}
    assert story.driver.bench.count("duplicates") == 1
    lacking = story.transaction(story.rename("Evi"), story.choose(story.physics))
    story.send(lacking, without=is_of("student"))
    story.send(story.transaction(story.rename("Ewa")))
    story.wait(WAIT_MS)
    story.send([message for message in lacking if is_of("student")(message)])
    story.send(story.transaction(story.rename("Eve")))
    assert story.last()["before"]["name"] == "Ewa"
    story.driver.bench.end()


def test_a_row_that_cannot_be_read_counts_and_its_transaction_is_incomplete() -> None:
    story = Story()
    messages = story.transaction(story.rename("Eva"), story.choose(story.maths))
    story.send([broken(message) if is_of("student")(message) else message for message in messages])
    assert story.told() == ["change INCOMPLETE"]
    assert story.driver.bench.dead_letters() == ["malformed"]
    story.driver.bench.end()


def test_rows_of_which_nothing_can_be_read_are_waited_for() -> None:
    story = Story()
    messages = story.transaction(story.rename("Eva"))
    story.send([replace(its, value={"op": "u"}) if is_of("student")(its) else its for its in messages])
    assert story.told() == []
    assert story.driver.bench.dead_letters() == ["malformed"]


def test_a_transaction_that_is_sent_again_is_told_once() -> None:
    story = Story()
    messages = story.transaction(story.rename("Eva"), story.choose(story.maths))
    story.send([*messages[:2], *messages, *messages])
    assert story.told() == ["updated TRANSACTION", "change TRANSACTION"]
    assert story.driver.bench.count("duplicates") == 3
    assert story.driver.bench.count("repeated_ends") == 1


def test_what_is_sent_again_after_the_retention_is_dropped_with_its_end() -> None:
    story = Story(duplicate_retention_ms=1_000)
    old = story.transaction(story.rename("Eva"))
    story.send(old)
    story.db.at += 100_000
    story.send(story.transaction(story.rename("Evi")))
    story.send([message for message in old if not is_end(message)])
    assert len(story.driver.bench.ask(story.driver.changes.service.queries["open_transactions"])) == 1
    story.send([message for message in old if is_end(message)])
    story.send([message for message in old if not is_end(message)])
    assert story.driver.bench.ask(story.driver.changes.service.queries["open_transactions"]) == []
    story.send(old)
    assert story.told() == ["updated TRANSACTION"] * 2
    assert story.driver.bench.ask(story.driver.changes.service.queries["open_transactions"]) == []


def test_rows_before_the_first_end_fill_the_state() -> None:
    story = Story()
    story.connector.metadata = False
    story.send(story.transaction(story.rename("Eva")))
    story.connector.metadata = True
    old = story.transaction(story.rename("Evi"))
    story.send(old, without=lambda message: message.topic.endswith("transaction"))
    story.send(story.transaction(story.rename("Ewa")))
    assert story.told() == ["updated TRANSACTION"]
    assert story.last()["before"]["name"] == "Evi"
    assert story.driver.bench.count("outside_transactions") == 1


def test_other_tables_do_not_count() -> None:
    story = Story()
    story.send(story.transaction(lambda t: story.db.insert(t, "audit", {"id": 1, "t": "x"}), story.rename("Eva")))
    assert story.told() == ["updated TRANSACTION"]


def test_a_snapshot_fills_what_is_not_known_and_tells_nothing() -> None:
    story = Story()
    rows = list(story.db.rows.values())
    new = story.transaction(story.new_student(7))
    story.send(story.snapshot([its for its in story.db.rows.values() if its not in rows]))
    story.send(new)
    assert story.told() == ["created TRANSACTION"]  # although the row was known
    story.send(story.snapshot(rows))
    story.send(story.transaction(story.rename("Eva")))
    story.send(story.snapshot(rows))
    assert story.told() == ["created TRANSACTION", "updated TRANSACTION"]
    assert story.driver.bench.count("snapshot_differs") == 1
    story.driver.bench.end()


def test_a_snapshot_does_not_bring_back_a_deleted_row() -> None:
    story = Story()
    rows = list(story.db.rows.values())
    link = story.link
    story.send(story.transaction(lambda t: story.db.delete(t, "enrolment", link)))
    story.send(story.snapshot(rows, incremental=True))
    assert story.driver.bench.count("snapshot_of_deleted") == 1
    deleted = story.driver.bench.ask(story.driver.changes.service.queries["row"], "enrolment", "[1]")
    assert deleted is not None
    assert deleted.columns is None
    story.send(story.transaction(lambda t: story.db.truncate(t, "booking")))
    story.send(story.transaction(lambda t: story.db.truncate(t, "enrolment")))
    assert story.told() == ["withdraw TRANSACTION", "truncated TRANSACTION", "truncated TRANSACTION"]


def test_an_incremental_snapshot_heals_a_row_if_it_is_told_to() -> None:
    story = Story(snapshots="heal")
    story.transaction(story.rename("Eva"))  # nobody sees it
    story.send(story.snapshot(list(story.db.rows.values())))
    assert story.told() == []
    story.send(story.snapshot(list(story.db.rows.values()), incremental=True))
    assert story.told() == ["updated SNAPSHOT"]
    assert story.last()["changed"] == ["name"]
    assert story.driver.bench.count("snapshot_differs") == 2
    story.send(story.transaction(story.rename("Eve")))
    assert story.last()["before"]["name"] == "Eva"


def test_a_snapshot_counts_for_transactions_whose_ends_are_later() -> None:
    story = Story()
    lacking = story.transaction(story.choose(story.maths))
    rows = list(story.db.rows.values())
    story.send(lacking, without=is_of("enrolment"))
    unknown = story.db.begin()
    story.db.insert(unknown, "student", {"id": 9, "name": "Zoe", "bio": None})
    story.db.commit(unknown, 1)
    story.send(story.snapshot([its for its in story.db.rows.values() if its not in rows]))
    assert story.driver.bench.ask(story.driver.changes.service.queries["row"], "student", "[9]") is None
    story.send([message for message in lacking if is_of("enrolment")(message)])
    assert story.driver.bench.ask(story.driver.changes.service.queries["row"], "student", "[9]") is not None


@pytest.mark.parametrize("full", [False, True])
def test_an_unknown_row_is_told_as_far_as_the_event_says(full: bool) -> None:
    story = Story(tables=tables_with(("student",) if full else ()))
    other = story.db.begin()
    uid = story.db.insert(other, "student", {"id": 5, "name": "Una", "bio": "another long text"})
    story.db.commit(other, 1)  # before anything was read
    story.send(story.transaction(lambda t: story.db.update(t, "student", uid, {"name": "Uma"})))
    event = story.last()
    if full:
        assert event["changed"] == ["name"]
        assert event["after"]["bio"] == event["before"]["bio"] == "another long text"
    else:
        assert event["missing"] == ["before", "after.bio"]
        assert "changed" not in event
    story.send(story.transaction(lambda t: story.db.update(t, "student", uid, {"bio": "short"})))
    assert story.last()["changed"] == (["bio"] if full else [])
    assert story.last().get("missing") == (None if full else ["before.bio"])


def test_a_deletion_of_an_unknown_row_shows_its_key() -> None:
    story = Story()
    other = story.db.begin()
    uid = story.db.insert(other, "student", {"id": 5, "name": "Una", "bio": None})
    columns = {"id": 5, "student_id": 5, "course_id": 1, "grade": None}
    link = story.db.insert(other, "enrolment", columns, student=uid, course=story.physics)
    story.db.commit(other, 1)
    story.send(
        story.transaction(lambda t: story.db.delete(t, "enrolment", link), lambda t: story.db.delete(t, "student", uid))
    )
    withdraw, deleted = story.driver.keyed()
    assert withdraw[0] == '["enrolment",5]'
    assert withdraw[1]["link"] == {"id": 5}
    assert withdraw[1]["missing"] == ["student", "course", "link"]
    assert deleted == ('["student",5]', deleted[1])
    assert deleted[1]["before"] == {"id": 5}


def test_each_row_goes_out_whole_if_it_is_wanted() -> None:
    story = Story(rows=True)
    story.send(story.transaction(story.rename("Eva")))
    story.send(story.transaction(story.rename("Eva", id=7)))
    rows = story.driver.bench.keyed(story.driver.changes.row_outputs["student"])
    shown = [(key, None if row is None else row.row.value()["name"]) for key, row in rows]
    assert shown == [("[1]", "Eve"), ("[1]", "Eva"), ("[1]", None), ("[7]", "Eva")]
    links = story.driver.bench.keyed(story.driver.changes.row_outputs["enrolment"])
    assert [(key, row and row.row.value()["student_id"]) for key, row in links] == [("[1]", 1), ("[1]", 7)]
    assert [row.row.value()["bio"] for _, row in rows if row is not None] == ["a long text"] * 3
    story.send(story.transaction(lambda t: story.db.truncate(t, "enrolment")))
    assert story.driver.bench.keyed(story.driver.changes.row_outputs["enrolment"])[-1] == ("[1]", None)


def test_records_of_another_table_are_dead_letters() -> None:
    story = Story()
    message = story.transaction(story.rename("Eva"))[1]
    story.send([Message("uni.public.course", message.key, message.value)])
    assert story.driver.bench.dead_letters() == ["wrong_table"]
