"""The decisions of a worker over random stories with crashes, and single ones by hand."""

from __future__ import annotations

import base64
import itertools
import random
from weakref import WeakKeyDictionary

import pytest

from moneystate.deliver import statuses
from moneystate.deliver.attempts import Answer
from moneystate.deliver.batches import Limits
from moneystate.deliver.breaker import Breaker, Status
from moneystate.deliver.connections import Connections
from moneystate.deliver.dispatcher import Bounds, Dispatcher
from moneystate.deliver.envelopes import Format
from moneystate.deliver.history import Ended, NotARecord, Redelivered
from moneystate.deliver.outcomes import Outcome
from moneystate.deliver.pending import PART_BYTES, Queued, from_records, to_records
from moneystate.deliver.records import Delivery
from moneystate.deliver.requests import Message
from moneystate.deliver.rows import Endpoint, Mode, Ordering, Subscription
from moneystate.deliver.status_events import Kind
from tests.budget import examples
from tests.deliver.made import READER, Shelf, delivery
from tests.deliver.promises import check
from tests.deliver.simulation import Story

KINDS = ("good", "flaky", "picky", "small", "dead")
LARGE = b'"' + b"x" * (PART_BYTES // 2) + b'"'  # so that a batch has several records in `delivery-pending`
T = 1_790_000_000_000


def story(seed: int) -> Story:
    rng = random.Random(seed)
    endpoints = {
        f"{kind}{n}": Endpoint(f"{kind}{n}", "acme", "https://x", max_in_flight=rng.randint(1, 4),
                               rate_per_second=rng.choice([None, 20.0]))
        for n, kind in enumerate(rng.choices(KINDS, k=3))
    }  # fmt: skip
    subscriptions = {}
    for n in range(4):
        limits = Limits(max_messages=rng.randint(1, 6), max_bytes=rng.choice([400, 1_000_000]), max_wait_ms=300)
        subscriptions[f"s{n}"] = Subscription(
            f"s{n}", rng.choice(list(endpoints)), "acme", rng.choice(list(Mode)), rng.choice(list(Format)), limits,
            rng.choice(list(Ordering)),
        )  # fmt: skip
    deliveries = []
    for n in range(rng.randint(5, 40)):
        subscription_id, its = rng.choice(list(subscriptions.items()))
        deliveries.append(
            delivery(
                delivery_id=f"msg_{n}", endpoint_id=its.endpoint_id, subscription_id=subscription_id,
                event_id=f"{'bad' if rng.random() < 0.2 else 'fine'}-{n}", sequence=f"{rng.random():.6f}",
                tenant=rng.choice(["a", "b"]), time_ms=T + n, body=LARGE if rng.random() < 0.05 else b"{}",
            )
        )  # fmt: skip
    return Story(seed, deliveries, endpoints, subscriptions, rng.choice([0.0, 0.02, 0.15]))


@pytest.mark.parametrize("seed", range(examples(60)))
def test_every_delivery_ends_once_whatever_crashes(seed: int) -> None:
    its = story(seed)
    its.run()
    check(its)


OK, FAILS = Answer(200, 5), Answer(503, 5)


NOTHING_KEPT = Bounds(most_loaded_bytes=0)
SHELVES: WeakKeyDictionary[Dispatcher, Shelf] = WeakKeyDictionary()


def worker(row: Endpoint | None = None, its: Subscription | None = None, bounds: Bounds | None = None) -> Dispatcher:
    ids, shelf = (f"b{n}" for n in range(1_000)), Shelf()
    made = Dispatcher(lambda: 0.0, lambda: next(ids), shelf.load, bounds)
    SHELVES[made] = shelf
    made.endpoint_row("e1", row or Endpoint("e1", "acme", "https://x", max_in_flight=1_000), 1, T)
    made.subscription_row("e1", "s1", its or Subscription("s1", "e1", "acme"), T)
    return made


def number(n: int) -> Delivery:
    return delivery(delivery_id=f"m{n}", sequence=f"{n:06d}", time_ms=T)


def sent(made: Dispatcher, now_ms: int, connections: Connections | None = None) -> list[Queued]:
    return [one for _, one in made.ready(now_ms, connections or Connections(10**6, lambda: 0))]


def commit(made: Dispatcher, now_ms: int = T) -> list[Ended]:
    """The outcomes of the transaction."""
    changes = made.collect(now_ms)
    SHELVES[made].apply(changes)
    made.committed(changes, now_ms)
    return [one for one in changes.log if isinstance(one, Ended)]


def test_a_delivery_that_is_sent_before_the_first_commit_is_never_pending() -> None:
    made = worker()
    made.take(number(1), 1, T, T)
    [one] = sent(made, T)
    made.answered(one, OK, T + 5)
    changes = made.collect(T)
    assert changes.pending == {}
    assert [one.outcome for one in changes.log if isinstance(one, Ended)] == [Outcome.DELIVERED]


def test_a_paused_endpoint_keeps_its_deliveries_and_their_age_stands() -> None:
    row = Endpoint("e1", "acme", "https://x", is_paused=True)
    made = worker(row, bounds=Bounds(max_age_ms=10_000))
    made.take(number(1), 1, T, T)
    assert (sent(made, T), made.next_ms()) == ([], None)
    later = T + 1_000_000
    made.endpoint_row("e1", Endpoint("e1", "acme", "https://x"), 2, later)
    [one] = sent(made, later)
    made.answered(one, FAILS, later)
    assert commit(made, later) == []  # it is not too old
    [again] = sent(made, later + 5_000)
    made.answered(again, FAILS, later + 10_000)
    assert [one.outcome for one in commit(made)] == [Outcome.DEAD]


def test_what_is_pending_of_a_deleted_endpoint_or_subscription_is_cancelled() -> None:
    batched = Subscription("s1", "e1", "acme", Mode.BATCH)
    for its in (None, batched):
        made = worker(its=its)
        made.take(number(1), 1, T, T)
        commit(made)
        made.endpoint_row("e1", None, 2, T)
        assert [(one.webhook_id, one.outcome) for one in commit(made)] == [("m1", Outcome.CANCELLED)]
        made.take(number(2), 2, T, T)
        assert [(one.webhook_id, one.outcome) for one in commit(made)] == [("m2", Outcome.CANCELLED)]
        gone = worker(its=its)
        gone.take(number(1), 1, T, T)
        gone.subscription_row("e1", "s1", None, T)
        changes = gone.collect(T)
        assert changes.pending == {}
        assert [one.outcome for one in changes.log if isinstance(one, Ended)] == [Outcome.CANCELLED]
        assert changes.undelivered == []


def test_an_endpoint_with_too_much_pending_has_the_rest_as_undelivered() -> None:
    made = worker(Endpoint("e1", "acme", "https://x", is_paused=True), bounds=Bounds(most=2))
    for n in range(4):
        made.take(number(n), n, T, T)
    assert [(one.webhook_id, one.outcome) for one in commit(made)] == [
        ("m2", Outcome.OVERFLOW),
        ("m3", Outcome.OVERFLOW),
    ]


def test_a_bound_counts_the_members_of_batches_and_what_has_ended_is_free_again() -> None:
    its = Subscription("s1", "e1", "acme", Mode.BATCH, limits=Limits(max_messages=2, max_wait_ms=0))
    made = worker(its=its, bounds=Bounds(most=3))
    for n in range(4):
        made.take(number(n), n, T, T)
        sent(made, T)
    assert [(one.webhook_id, one.outcome) for one in commit(made)] == [("m3", Outcome.OVERFLOW)]
    for batch in sent(made, T):
        made.answered(batch, OK, T)
    queue = made.endpoints["e1"]
    assert (queue.count, queue.bytes) == (0, 0)


def test_retry_after_holds_the_endpoint_and_costs_no_attempt() -> None:
    made = worker(Endpoint("e1", "acme", "https://x", max_in_flight=1))
    made.take(number(1), 1, T, T)
    made.take(number(2), 2, T, T)
    [one] = sent(made, T)
    made.answered(one, Answer(429, 5, "7"), T)
    assert sent(made, T + 6_999) == []
    [first] = sent(made, T + 7_000)
    assert first.attempts == 0


def test_a_rate_is_kept() -> None:
    made = worker(Endpoint("e1", "acme", "https://x", max_in_flight=1_000, rate_per_second=10.0))
    for n in range(100):
        made.take(number(n), n, T, T)
    times = [now for now in range(T, T + 2_000, 5) for _ in sent(made, now)]
    assert len(times) in (19, 20)
    assert all(later - earlier >= 100 for earlier, later in itertools.pairwise(times))


def test_an_open_breaker_lets_probes_through_one_by_one_and_its_closing_makes_all_due() -> None:
    made = worker()
    for n in range(20):
        made.take(number(n), n, T, T)
    for one in sent(made, T):
        made.answered(one, FAILS, T)
    queue = made.endpoints["e1"]
    assert queue.breaker.status is Status.OPEN
    assert sent(made, T + 900) == []
    probes = []
    for now in (T + 1_000, T + 3_000, T + 7_000):
        [probe] = sent(made, now)
        probes.append(probe)
        assert sent(made, now) == []
        made.answered(probe, FAILS, now)
    assert len({one.webhook_id for one in probes}) == 3
    assert {one.attempts for one in probes} == {1}  # those that opened it were counted, probes are not
    [last] = sent(made, T + 15_000)
    made.answered(last, OK, T + 15_000)
    rest = [
        one
        for second in range(6)
        for now in range(0, 1_000, 50)
        for one in sent(made, T + 15_000 + second * 1_000 + now)
    ]
    assert len(rest) == 19


def test_a_disabled_endpoint_waits_for_a_newer_row() -> None:
    made = worker()
    made.take(number(1), 1, T, T)
    [one] = sent(made, T)
    made.answered(one, Answer(410, 5), T)
    assert made.endpoints["e1"].breaker.status is Status.DISABLED
    assert "e1" in made.collect(T).statuses
    assert sent(made, T + 10**9) == []
    made.endpoint_row("e1", Endpoint("e1", "acme", "https://y"), 2, T + 10**6)
    assert [one.webhook_id for one in sent(made, T + 10**6)] == ["m1"]


def test_a_disabled_endpoint_is_resumed_for_its_owner() -> None:
    made = worker()
    made.take(number(1), 1, T, T)
    [one] = sent(made, T)
    made.answered(one, Answer(410, 5), T)
    made.resume("e1", "other", T + 10)
    made.resume("absent", "acme", T + 10)
    assert sent(made, T + 10) == []
    made.resume("e1", "acme", T + 20)
    assert [one.webhook_id for one in sent(made, T + 20)] == ["m1"]
    changes = made.collect(T + 20)
    assert changes.statuses["e1"] == Breaker(closed_at_ms=T + 20)
    assert [(one.kind, one.owner, one.at_ms) for one in changes.events] == [
        (Kind.DISABLED, "acme", T),
        (Kind.ENABLED, "acme", T + 20),
    ]


def test_a_worker_that_takes_over_goes_on_slowly_where_a_breaker_has_just_closed() -> None:
    made = worker()
    _, breaker = statuses.from_json(statuses.to_json("e1", Breaker(closed_at_ms=T), T))
    made.status("e1", breaker)
    for n in range(20):
        made.take(number(n), n, T, T)
    assert [len(sent(made, T + its)) for its in (0, 500, 1_000, 1_400)] == [1, 0, 1, 0]


def test_a_redelivery_is_another_run_of_the_same_message() -> None:
    made = worker()
    message = Message("m1", [number(1)], None)
    made.redeliver(message, 1, 2, "c1", T)
    [one] = sent(made, T)
    made.answered(one, OK, T)
    assert [(one.run, one.outcome) for one in commit(made)] == [(2, Outcome.DELIVERED)]


def test_a_batch_that_is_too_large_is_sent_in_halves_under_ids_of_their_own() -> None:
    made = worker(its=Subscription("s1", "e1", "acme", Mode.BATCH, limits=Limits(max_messages=4)))
    for n in range(4):
        made.take(number(n), n, T, T)
    assert sent(made, T) == []
    commit(made)
    [whole] = sent(made, T)
    made.answered(whole, Answer(413, 5), T)
    assert sent(made, T) == []
    assert commit(made) == []
    halves = sent(made, T)
    assert [[one.delivery_id for one in its.loaded.members] for its in halves] == [["m0", "m1"], ["m2", "m3"]]
    assert len({whole.webhook_id, *(one.webhook_id for one in halves)}) == 3


def test_a_pending_delivery_is_read_as_it_was_written() -> None:
    one = Queued(Message("b1", [number(1), number(2)], Format.NDJSON), 77, T - 1, 2, 3, T + 5, 7)
    again = from_records("b1", to_records(one, 17).get, READER)
    assert (again.message, again.place, again.routed_ms) == (one.message, 77, T - 1)
    assert (again.run, again.attempts, again.due_ms, again.paused_base_ms) == (2, 3, T + 5, -10)
    its = number(1)
    wanted = (
        b'{"webhookId":"m1","endpointId":"e1","subscriptionId":"s1","place":4,"run":1,"attempts":0,"due":0,"routed":9,"paused":0,'
        b'"format":null,"cut":false,"parts":1,"members":["' + base64.b64encode(its.record) + b'"]}'
    )
    assert to_records(Queued(Message("m1", [its], None), 4, 9, is_cut=False), 0) == {"m1": wanted}
    for damaged in (None, b"", b"[]", wanted.replace(b"w", b"!"), wanted.replace(b'"parts":1', b'"parts":2')):
        with pytest.raises(NotARecord):
            from_records("m1", {"m1": damaged}.get, READER)


def test_a_pause_counts_for_what_was_pending_in_it_also_over_a_takeover() -> None:
    paused, going = (Endpoint("e1", "acme", "https://x", is_paused=its) for its in (True, False))
    bounds = Bounds(max_age_ms=10_000)
    made = worker(paused, bounds=bounds)
    made.take(number(1), 1, T, T)
    changes = made.collect(T)
    heir = worker(bounds=bounds)
    SHELVES[heir].apply(changes)
    heir.endpoint_row("e1", paused, 1, T + 60_000, T - 5_000)  # the row is older than the message
    heir.restore(SHELVES[heir].left(), T + 60_000)
    heir.endpoint_row("e1", going, 2, T + 100_000, T + 90_000)
    later = delivery(delivery_id="m2", sequence="000002", time_ms=T + 90_000)
    heir.take(later, 2, T + 90_000, T + 100_000)
    first, second = sent(heir, T + 100_000)
    assert first.age(heir.endpoints["e1"].paused_ms(T + 100_000)).paused_ms == 90_000
    assert second.age(heir.endpoints["e1"].paused_ms(T + 100_000)).paused_ms == 0


def test_the_halves_of_a_batch_that_was_sent_again_are_of_its_run() -> None:
    made = worker(its=Subscription("s1", "e1", "acme", Mode.BATCH))
    made.redeliver(Message("b9", [number(1), number(2)], Format.ARRAY), 1, 2, "c1", T)
    [whole] = sent(made, T)
    made.answered(whole, Answer(413, 5), T)
    commit(made)
    for half in sent(made, T):
        made.answered(half, OK, T)
    assert [(one.run, one.outcome) for one in commit(made)] == [(2, Outcome.DELIVERED)] * 2


def test_a_single_event_that_is_sent_again_joins_no_batch() -> None:
    made = worker(its=Subscription("s1", "e1", "acme", Mode.BATCH, limits=Limits(max_wait_ms=0)))
    made.redeliver(Message("m1", [number(1)], None), 1, 2, "c1", T)
    [one] = sent(made, T)
    assert (one.webhook_id, one.format) == ("m1", None)


def test_what_is_sent_again_to_what_is_deleted_is_cancelled_and_bounds_hold_for_it() -> None:
    for table in ("endpoints", "subscriptions"):
        made = worker()
        if table == "endpoints":
            made.endpoint_row("e1", None, 2, T)
        else:
            made.subscription_row("e1", "s1", None, T)
        made.redeliver(Message("m1", [number(1)], None), 1, 2, "c1", T)
        assert sent(made, T) == []
        changes = made.collect(T)
        assert [type(one) for one in changes.log] == [Redelivered, Ended]
        assert [one.outcome for one in changes.log if isinstance(one, Ended)] == [Outcome.CANCELLED]
    full = worker(bounds=Bounds(most=0))
    full.redeliver(Message("m1", [number(1)], None), 1, 2, "c1", T)
    assert [(one.run, one.outcome) for one in commit(full)] == [(2, Outcome.OVERFLOW)]


def test_a_large_batch_is_in_several_records_and_an_attempt_changes_only_the_first() -> None:
    members = [delivery(delivery_id=f"m{n}", sequence=f"{n:06d}", body=b'"' + b"x" * 150_000 + b'"') for n in range(10)]
    its = Subscription("s1", "e1", "acme", Mode.BATCH, limits=Limits(10, 5_000_000, 0))
    made = worker(its=its, bounds=NOTHING_KEPT)
    for one in members:
        made.take(one, int(one.delivery_id[1:]), T, T)
    sent(made, T)
    changes = made.collect(T)
    records = {key: value for key, value in changes.pending.items() if value is not None}
    assert len(records) == 5
    assert max(map(len, records.values())) < 600_000
    SHELVES[made].apply(changes)
    made.committed(changes, T)
    [batch] = sent(made, T)
    assert batch.loaded.members == members
    made.answered(batch, FAILS, T)
    after = made.collect(T)
    assert list(after.pending) == [batch.webhook_id]
    SHELVES[made].apply(after)
    made.committed(after, T)
    assert batch.message is None
    [again] = sent(made, T + 10_000)
    assert again.loaded.members == members
    made.answered(again, OK, T + 10_000)
    commit(made)
    assert SHELVES[made].records == {}


def test_an_endpoint_has_one_connection_when_they_are_scarce_and_all_wait_when_there_is_none() -> None:
    made = worker(Endpoint("e1", "acme", "https://x", max_in_flight=9))
    made.endpoint_row("e2", Endpoint("e2", "acme", "https://x", max_in_flight=9), 1, T)
    made.subscription_row("e2", "s2", Subscription("s2", "e2", "acme"), T)
    for n in range(20):
        made.take(number(n), n, T, T)
        other = delivery(delivery_id=f"o{n}", sequence=f"{n:06d}", endpoint_id="e2", subscription_id="s2")
        made.take(other, n, T, T)
    connections = Connections(4, lambda: 0)
    first = sent(made, T, connections)
    assert [one.endpoint_id for one in first] == ["e1", "e1", "e2"]  # the third one is scarce
    assert sent(made, T + 100, connections) == []
    connections.used = 4  # another partition has the last one
    connections.used -= 1
    made.answered(first[2], OK, T + 100)
    assert [one.endpoint_id for one in sent(made, T + 100, connections)] == ["e2"]
    connections.used = 4
    for one in first[:2]:
        made.answered(one, OK, T + 200)
    assert sent(made, T + 200, connections) == []
    connections.used = 0
    assert [one.endpoint_id for one in sent(made, T + 300, connections)] == ["e1", "e1"]


def test_a_backlog_is_not_in_memory_once_it_is_committed() -> None:
    made = worker(Endpoint("e1", "acme", "https://x", max_in_flight=2), bounds=NOTHING_KEPT)
    for n in range(10):
        made.take(number(n), n, T, T)
    flying = sent(made, T)
    commit(made)
    queued = made.endpoints["e1"].queued.values()
    assert [one for one in queued if one.message is not None] == flying
    made.answered(flying[0], OK, T)
    [following] = sent(made, T)
    assert following.loaded.members == [number(2)]
