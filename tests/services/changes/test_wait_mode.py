"""Wait mode, rule by rule."""

from __future__ import annotations

from tests.services.changes.story import SETTLE_MS, Story, is_of

WAIT_MS = 10_000


def story() -> Story:
    made = Story(transactions=False)
    made.connector.metadata = False
    return made


def enroll(made: Story, id: int, student: int) -> None:
    columns = {"id": id, "student_id": student, "course_id": 1, "grade": None}
    made.settled(made.transaction(lambda t: made.db.insert(t, "enrolment", columns, student=None, course=None)))


def test_a_unit_is_told_once_a_later_one_or_a_heartbeat_shows_that_it_is_whole() -> None:
    made = story()
    made.send(made.transaction(made.rename("Eva")))
    made.wait(10 * SETTLE_MS)
    assert made.told() == []
    made.send(made.transaction(made.rename("Evi")))
    assert made.told() == ["updated WAIT"]
    made.beat()
    assert made.told() == ["updated WAIT"]  # the second one has not settled
    made.now += SETTLE_MS
    made.beat()
    assert made.told() == ["updated WAIT"] * 2
    made.driver.bench.end()


def test_units_are_applied_in_the_order_of_their_commits() -> None:
    made = story()
    first, second = made.transaction(made.rename("Eva")), made.transaction(made.rename("Evi"))
    made.send(second)
    made.settled(first)
    assert [event["after"]["name"] for event in made.driver.events()] == ["Eva", "Evi"]


def test_a_link_absorbs_the_creation_that_it_comes_after_within_the_wait() -> None:
    made = story()
    made.settled(made.transaction(made.new_student(7)))
    assert made.told() == []
    (waiting,) = made.ask("waiting_events")
    assert waiting.event.type == "created"
    enroll(made, 9, 7)
    assert made.told() == ["enroll WAIT"]
    assert made.last()["student"]["name"] == "Ann"
    assert [op for _, op, _ in made.last()["rows"]] == ["c", "c"]
    assert made.ask("waiting_events") == []
    made.wait(2 * WAIT_MS)
    assert made.told() == ["enroll WAIT"]
    made.driver.bench.end()


def test_a_link_waits_for_its_student() -> None:
    made = story()
    enroll(made, 9, 7)
    assert made.told() == []
    made.settled(made.transaction(made.new_student(7)))
    assert made.told() == ["enroll WAIT"]
    assert made.last()["student"]["name"] == "Ann"
    assert made.driver.keyed()[-1][0] == '["student",7]'


def test_what_nothing_follows_is_told_after_the_wait() -> None:
    made = story()
    enroll(made, 9, 8)
    made.settled(made.transaction(made.new_student(7)))
    link = made.link
    made.settled(made.transaction(lambda t: made.db.delete(t, "enrolment", link)))
    assert made.told() == []
    made.wait(WAIT_MS - 2 * SETTLE_MS)
    made.wait(3 * SETTLE_MS)
    assert made.told() == ["enroll WAIT", "created WAIT", "withdraw WAIT"]
    first, _, last = made.driver.events()
    assert first["missing"] == ["student"]
    assert last["student"]["name"] == "Eve"
    assert made.ask("events_of", "student", "[7]").value()[0]["type"] == "created"
    made.driver.bench.end()


def test_a_later_change_is_a_part_of_what_waits() -> None:
    made = story()
    uids: list[int] = []
    insert = {"id": 7, "name": "Ann", "bio": None}
    made.settled(made.transaction(lambda t: uids.append(made.db.insert(t, "student", insert))))
    made.settled(made.transaction(lambda t: made.db.update(t, "student", uids[0], {"name": "Anna", "id": 8})))
    assert made.told() == []
    made.wait(2 * WAIT_MS)
    assert made.told() == ["created WAIT"]
    assert made.last()["after"] == {"id": 8, "name": "Anna", "bio": None}
    assert [op for _, op, _ in made.last()["rows"]] == ["c", "d", "c"]
    other = {"id": 9, "name": "Ann", "bio": None}
    made.settled(made.transaction(lambda t: uids.append(made.db.insert(t, "student", other))))
    made.settled(made.transaction(lambda t: made.db.delete(t, "student", uids[1])))
    made.wait(2 * WAIT_MS)
    assert made.told() == ["created WAIT"]
    made.driver.bench.end()


def test_a_removed_link_and_the_next_one_of_its_student_are_a_change_even_if_the_course_is_gone() -> None:
    made = story()
    link, physics = made.link, made.physics
    made.settled(made.transaction(lambda t: made.db.delete(t, "enrolment", link)))
    made.settled(made.transaction(lambda t: made.db.delete(t, "course", physics)))
    columns = {"id": 9, "student_id": 1, "course_id": 2, "grade": None}
    made.settled(made.transaction(lambda t: made.db.insert(t, "enrolment", columns, student=None, course=None)))
    assert made.told() == ["deleted WAIT", "change WAIT"]
    assert made.last()["from"]["title"] == "physics"
    assert made.last()["to"]["title"] == "maths"


def test_a_row_that_comes_after_its_unit_is_late() -> None:
    made = story()
    messages = made.transaction(made.rename("Eva"), made.choose(made.maths))
    late = [message for message in messages if is_of("student")(message)]
    made.settled([message for message in messages if message not in late])
    made.settled(late)
    made.settled(messages)
    assert made.told() == ["change WAIT", "lateTransaction WAIT"]
    assert made.driver.bench.count("duplicates") == 2
    made.driver.bench.end()


def test_rows_without_a_transaction_number_are_units_by_themselves() -> None:
    made = story()
    messages = made.transaction(made.rename("Eva"), made.choose(made.maths))
    for message in messages:
        message.value["source"]["txId"] = None
    made.settled(messages)
    assert made.told() == ["updated WAIT", "change WAIT"]
    assert made.last()["transaction"] is None


def test_a_key_may_look_like_the_name_of_a_unit() -> None:
    made = story()
    messages = made.transaction(lambda t: made.db.insert(t, "student", {"id": "1@7", "name": "Ann", "bio": None}))
    for message in messages:
        message.value["source"]["txId"] = None
    made.settled(messages)
    made.wait(2 * WAIT_MS)
    assert made.told() == ["created WAIT"]
    assert made.driver.keyed()[0][0] == '["student","1@7"]'


def test_a_truncate_takes_what_waits_in_its_table() -> None:
    made = story()
    enroll(made, 9, 8)
    made.settled(made.transaction(lambda t: made.db.truncate(t, "enrolment")))
    made.wait(2 * WAIT_MS)
    assert made.told() == ["truncated WAIT"]


def test_links_wait_in_the_list_of_the_row_that_is_missing_only() -> None:
    made = story()
    for id in range(20, 40):
        enroll(made, id, 1_000 + id)
    wanted = made.driver.bench.state(made.driver.changes.wanted, "uni")
    assert {id.partition(",")[0] for id in wanted} == {'["student"'}
    assert {len(ids.ids) for ids in wanted.values()} == {1}


def test_several_units_of_one_step_can_complete_the_same_event() -> None:
    made = story()
    link = {"id": 9, "student_id": 7, "course_id": 8, "grade": None}
    course = {"id": 8, "title": "art", "teacher": "Baz"}
    made.send(made.transaction(lambda t: made.db.insert(t, "enrolment", link, student=None, course=None)))
    made.send(made.transaction(made.new_student(7)))
    made.settled(made.transaction(lambda t: made.db.insert(t, "course", course)))
    assert made.told() == ["enroll WAIT"]
    assert len(made.last()["rows"]) == 3
    made.driver.bench.end()
