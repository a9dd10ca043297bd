"""Records become rows, each once: with a real broker and a real database."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import TopicPartition
from confluent_kafka.cimpl import NewPartitions

from moneystate.apply.config_file import read_settings
from moneystate.apply.process import ddl_of, difference_of
from moneystate.apply.worker import Choices
from moneystate.errors import RetentionError, SetupError
from moneystate.kafka.offsets import log_ends
from moneystate.runtime.plans import plan_of
from tests.apply.harness import Published, Site

ORDERS = """
[rows.orders]
topic = "orders"
key = "id"
table = ["public", "orders"]
"""
SERVICE = "examples.orders.orders:service"
CLOSED = f"""
[rows.closed]
topic = "orders-closed"
format = "avro"
service = "{SERVICE}"
type = "Closed"
key = "orderId"
table = ["public", "closed"]
"""


def letters(site: Site) -> list[Published]:
    return site.published(f"{site.name}-apply-dead-letters")


def reasons(site: Site) -> list[bytes]:
    return sorted(letter.headers["moneystate.reason"] or b"" for letter in letters(site))


def test_the_last_record_of_each_key_is_a_row_and_a_tombstone_deletes_it(site: Site) -> None:
    site.topic("orders", 2)
    site.sql("CREATE TABLE orders (id text PRIMARY KEY, cents bigint, placed_at timestamptz, note text DEFAULT 'new')")
    site.send("orders", [("a", {"id": "a", "cents": 1, "placedAt": "2026-01-02T03:04:05.678Z"}),
                         ("b", {"id": "b", "cents": 2, "placedAt": None}),
                         ("a", {"id": "a", "cents": 3, "placedAt": "2026-01-02T03:04:05.678Z"})])  # fmt: skip
    with site.running(site.config(ORDERS)):
        site.until(lambda: len(site.sql("SELECT * FROM orders")) == 2, "two rows")
        site.sql("UPDATE orders SET note = 'mine' WHERE id = 'a'")
        site.send("orders", [("b", None), ("c", {"id": "c", "cents": 4}), ("a", {"id": "a", "cents": 5})])
        site.until(lambda: site.sql("SELECT 1 FROM orders WHERE cents >= 4 HAVING count(*) = 2"), "the other rows")
        site.until(lambda: not site.sql("SELECT 1 FROM orders WHERE id = 'b'"), "the deletion")
    assert site.sql("SELECT id, cents, note FROM orders ORDER BY id") == [("a", 5, "mine"), ("c", 4, "new")]


def test_bad_records_become_dead_letters_and_the_others_rows(site: Site) -> None:
    """Those that only the database can find, too: in a chunk with others, only they are left out."""
    site.topic("orders")
    site.sql("CREATE TABLE orders (id text PRIMARY KEY, cents numeric(6, 2) CHECK (cents < 100), mail text UNIQUE)")
    good = [(f"k{n}", {"id": f"k{n}", "cents": n, "mail": f"m{n}"}) for n in range(60)]
    bad = [
        ("x1", {"id": "x1", "cents": 1.005, "mail": "x1"}),
        ("x2", {"id": "x2", "cents": 500, "mail": "x2"}),
        ("x3", {"id": "x3", "cents": 1, "mail": "m7"}),
        ("x4", {"id": "other", "cents": 1, "mail": "x4"}),
        ("x5", b"{"),
    ]
    earlier = [(key, {**value, "cents": 99}) for key, value in good[:5]]  # several of one key are in a transaction
    site.send("orders", [bad[1], *earlier, *good[:30], bad[0], *bad[2:], *good[30:]])
    with site.running(site.config(ORDERS)):
        site.until(lambda: len(site.sql("SELECT 1 FROM orders")) == len(good), "the good rows")
        site.until(lambda: len(letters(site)) == len(bad), "the dead letters")
    assert site.sql("SELECT 1 FROM orders WHERE cents = 99") == []
    assert reasons(site) == [b"database", b"database", b"key", b"malformed", b"value"]
    assert all(b"500" not in (letter.headers["moneystate.detail"] or b"") for letter in letters(site))


def closed(order: str, status: str, missing: int) -> bytes:
    codec = next(o.codec for o in plan_of(SERVICE).outputs.values() if o.codec.record.short == "Closed")
    return codec.encode(codec.record.cls(order, status, missing))


def test_a_services_output_makes_its_own_table(site: Site) -> None:
    site.topic("orders-closed")
    config = site.config(CLOSED)
    statement = next(s for s in ddl_of(read_settings(config)) if '"closed"' in s)
    assert '"order_id" text NOT NULL' in statement
    assert '"missing" bigint' in statement
    site.send("orders-closed", [("o1", closed("o1", "PAID", 0)), ("o2", closed("o2", "EXPIRED", 7)), ("o1", None)])
    with site.running(config):
        site.until(lambda: site.sql("SELECT * FROM closed") == [("o2", "EXPIRED", 7)], "the row")
    assert difference_of(read_settings(config)) == []
    site.sql("ALTER TABLE closed DROP COLUMN missing")
    assert difference_of(read_settings(config)) == ['ALTER TABLE "public"."closed" ADD COLUMN "missing" bigint;']


def test_appended_rows_are_one_for_each_record(site: Site) -> None:
    site.topic("orders", 2)
    site.sql("CREATE TABLE orders (n bigint GENERATED ALWAYS AS IDENTITY, id text, cents bigint)")
    site.send("orders", [("a", {"id": "a", "cents": n}) for n in range(50)] + [("a", None)])
    columns = '[rows.orders.columns]\nid = "id"\ncents = "cents"\n'
    with site.running(site.config(ORDERS + 'mode = "append"\n' + columns)):
        site.until(lambda: len(site.sql("SELECT 1 FROM orders")) == 50, "all rows")
    assert [cents for (cents,) in site.sql("SELECT cents FROM orders ORDER BY n")] == list(range(50))


def change(op: str, row: dict[str, object] | None, key: int) -> tuple[str, object]:
    return f'{{"id":{key}}}', {"op": op, "before": None, "after": row, "source": {}, "ts_ms": 1}


def test_change_events_keep_a_copy_of_a_table(site: Site) -> None:
    site.topic("students")
    site.sql("CREATE TABLE students (id int PRIMARY KEY, name text, email text)")
    target = ORDERS.replace("orders", "students") + 'format = "debezium"\n'
    rows: Sequence[tuple[str, object]] = [
        change("r", {"id": 1, "name": "Eve", "email": "e@x"}, 1),
        change("c", {"id": 2, "name": "Bob", "email": "b@x"}, 2),
        change("u", {"id": 1, "name": "Eva", "email": "__debezium_unavailable_value"}, 1),
        change("d", None, 2),
        ('{"id":2}', None),
    ]
    site.send("students", rows)
    with site.running(site.config(target)):
        site.until(lambda: site.sql("SELECT * FROM students") == [(1, "Eva", "e@x")], "the table")


def test_a_table_that_does_not_fit_is_refused(site: Site) -> None:
    config = site.config(ORDERS)
    assert "expected the tables of positions" in str(site.error_of(config, create_tables=False))
    assert "expected public.orders in the database" in str(site.error_of(config))
    site.sql("CREATE TABLE orders (id text)")
    assert "expected a primary key or a unique index of id" in str(site.error_of(config))


def test_a_topic_that_was_made_again_is_refused(site: Site) -> None:
    site.sql("CREATE TABLE orders (id text PRIMARY KEY)")
    topic = site.topic("orders")
    site.send("orders", [("a", {"id": "a"})])
    config = site.config(ORDERS)
    with site.running(config):
        site.until(lambda: site.sql("SELECT 1 FROM orders"), "the row")
    site.admin.delete_topics([topic])[topic].result()
    site.topic("orders")
    error = site.error_of(config, lambda process: site.until(lambda: process.workers[0].error, "an error"))
    assert isinstance(error, SetupError)
    assert "deleted and made again" in str(error)


def test_lost_records_are_refused_or_skipped_and_counted(site: Site) -> None:
    site.sql("CREATE TABLE orders (id text PRIMARY KEY)")
    topic = site.topic("orders")
    config = site.config(ORDERS)
    site.send("orders", [("a", {"id": "a"})])
    with site.running(config):
        site.until(lambda: site.sql("SELECT 1 FROM orders"), "the row")
    site.send("orders", [("b", {"id": "b"}), ("c", {"id": "c"})])
    end = log_ends(site.admin, [(topic, 0)])[topic, 0]
    for future in site.admin.delete_records([TopicPartition(topic, 0, end)]).values():
        future.result()
    site.send("orders", [("d", {"id": "d"})])
    error = site.error_of(config, lambda process: site.until(lambda: process.workers[0].error, "an error"))
    assert isinstance(error, RetentionError)
    assert "expected the position 1 in the log" in str(error)
    with site.running(config, Choices(skip_lost=True)) as process:
        site.until(lambda: site.sql("SELECT 1 FROM orders WHERE id = 'd'"), "the row")
        assert process.workers[0].counts.skipped == 2


def test_new_partitions_are_read_from_their_beginning(site: Site) -> None:
    site.sql("CREATE TABLE orders (id text PRIMARY KEY)")
    topic = site.topic("orders")
    with site.running(site.config(ORDERS + 'start = "latest"\n')) as process:
        site.until(lambda: process.workers[0].begins, "an assignment")
        site.admin.create_partitions([NewPartitions(topic, 2)])[topic].result()
        site.producer.list_topics(timeout=10)
        site.send("orders", [("b", {"id": "b"})], partition=1)
        site.until(lambda: site.sql("SELECT 1 FROM orders WHERE id = 'b'"), "the row of the new partition")
