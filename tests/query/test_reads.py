"""What the calls of the service Query answer, from a real replica of a real changelog."""

from __future__ import annotations

from typing import Any

import pytest

from moneystate.query.v1 import query_pb2, user_pb2
from moneystate.serving.client import Client
from moneystate.state.v1 import header_pb2
from services.enrichment.state import owner_of
from tests.query.serving import Server, failure
from tests.query.story import EPOCH, LAST, SUFFIX_BYTES, USERS, Job
from tests.reference.builder import ms


def at(batch: int, epoch: str = EPOCH) -> header_pb2.At:
    return header_pb2.At(version=header_pb2.Version(epoch=epoch, batch=batch))


def get(client: Client, user: str, pinned: header_pb2.At | None = None) -> user_pb2.User:
    answer = client.call("Query.GetUser", query_pb2.GetUserRequest(user_id=user, at=pinned))
    assert isinstance(answer.user, user_pb2.User)
    return answer.user


def test_a_user_has_all_that_is_known_of_it(client: Client) -> None:
    ann = get(client, "ann")
    assert (ann.birth_year.value, ann.resident_country_code.value) == ("1980", "PT")
    assert [t.type for t in ann.money_types] == ["AAA"]
    assert {s.session_id: s.client_country_code.value for s in ann.sessions} == {"s-ann": "CA", "s-late": "CA"}
    assert [m.money_id for m in ann.seen_money] == ["m-seen", "m-waits"]
    assert not ann.waiting
    assert not ann.looking_up


def test_the_header_says_which_version_it_is_and_how_fresh(client: Client) -> None:
    header = client.call("Query.GetUser", query_pb2.GetUserRequest(user_id="ann")).header
    assert (header.version.epoch, header.version.batch) == (EPOCH, LAST)
    assert header.watermark_ms == ms(29)
    assert len(bytes.fromhex(header.schema_fingerprint)) == 8


def test_a_pinned_read_is_of_that_version(client: Client) -> None:
    ann = get(client, "ann", at(2))
    before = get(client, "ann", at(1))
    assert [p.money_id for p in before.waiting] == ["m-waits"]
    assert before.waiting[0].birth_year.value == "1980"
    assert before.waiting[0].resident_country_code.value == "ES"
    assert before.waiting[0].amount == "100.0000"
    assert not ann.waiting


def test_an_event_time_reads_the_newest_version_whose_watermark_is_not_after_it(client: Client) -> None:
    times = header_pb2.At(event_time_ms=ms(25))
    answer = client.call("Query.GetUser", query_pb2.GetUserRequest(user_id="ann", at=times))
    assert answer.header.version.batch == 1
    ahead = header_pb2.At(event_time_ms=ms(1e9))
    newest = client.call("Query.GetUser", query_pb2.GetUserRequest(user_id="ann", at=ahead))
    assert newest.header.version.batch == 2


def test_a_batch_answers_in_the_order_asked_for_and_says_who_is_unknown(client: Client) -> None:
    request = query_pb2.BatchGetUsersRequest(user_ids=["bob", "nobody", "ann", "bob"])
    results = client.call("Query.BatchGetUsers", request).results
    assert [r.user_id for r in results] == ["bob", "nobody", "ann", "bob"]
    assert [r.HasField("user") for r in results] == [True, False, True, True]


def test_a_session_is_found_by_its_id(client: Client) -> None:
    answer = client.call("Query.GetSession", query_pb2.GetSessionRequest(session_id="s-late"))
    assert (answer.user_id, answer.session.session_id) == ("ann", "s-late")
    request = query_pb2.GetSessionRequest(session_id="s-late", at=at(1))
    assert failure(lambda: client.call("Query.GetSession", request)) == ("NOT_FOUND", "NOT_FOUND")


@pytest.mark.parametrize("size", [1, 7, 100, 1000])
def test_pages_of_any_size_list_every_user_once_in_order(client: Client, size: int) -> None:
    listed = list_all(client, "Query.ListUsers", query_pb2.ListUsersRequest(page_size=size), "users")
    assert [u.user_id for u in listed] == USERS


def test_users_by_prefix_range_and_country(client: Client) -> None:
    some = query_pb2.ListUsersRequest(prefix="user-0", start="user-005", end="user-020", resident_country_code="ES")
    listed = [u.user_id for u in list_all(client, "Query.ListUsers", some, "users")]
    assert listed == [f"user-{n:03d}" for n in range(5, 20) if n % 3 == 0]
    moved = query_pb2.ListUsersRequest(resident_country_code="ES", end="b")
    assert list_all(client, "Query.ListUsers", moved, "users") == []


def test_a_listing_stays_of_one_version(client: Client) -> None:
    request = query_pb2.ListUsersRequest(page_size=100, at=at(1))
    first = client.call("Query.ListUsers", request)
    request = query_pb2.ListUsersRequest(page_size=50, page_token=first.next_page_token)
    second = client.call("Query.ListUsers", request)
    assert second.header.version.batch == first.header.version.batch == 1


def test_pending_money_is_listed_oldest_first_by_reason(client: Client) -> None:
    waiting = query_pb2.ListPendingRequest(reason=user_pb2.PENDING_REASON_WAITING_FOR_SESSION, at=at(1), page_size=6)
    listed = list_all(client, "Query.ListPending", waiting, "pending")
    assert listed[0].money_id == "m-waits"
    assert {p.money_id for p in listed[1:]} == {f"m-user-{n:03d}" for n in range(20)}
    times = [p.order_time_ms for p in listed]
    assert times == sorted(times)
    old = query_pb2.ListPendingRequest(reason=user_pb2.PENDING_REASON_LOOKUP_OLD)
    assert list_all(client, "Query.ListPending", old, "pending") == []


def test_a_user_at_two_versions(client: Client) -> None:
    answer = client.call("Query.DiffUser", between(query_pb2.DiffUserRequest(user_id="ann"), 0, 1))
    assert answer.change.before.resident_country_code.value == "ES"
    assert answer.change.after.resident_country_code.value == "PT"
    bob = client.call("Query.DiffUser", between(query_pb2.DiffUserRequest(user_id="bob"), 0, 2)).change
    assert not bob.HasField("before")
    assert bob.after.birth_year.value == "1999"


def test_a_diff_has_the_users_that_differ(client: Client) -> None:
    changes = list_all(client, "Query.Diff", between(query_pb2.DiffRequest(page_size=40), 0, 1), "changes")
    assert [c.user_id for c in changes] == [u for u in USERS if u != "bob"]
    last = list_all(client, "Query.Diff", between(query_pb2.DiffRequest(), 1, 2), "changes")
    assert [c.user_id for c in last] == ["ann", "bob"]
    assert list_all(client, "Query.Diff", between(query_pb2.DiffRequest(), 2, 2), "changes") == []


def test_pending_money_is_explained(client: Client) -> None:
    answer = client.call("Query.Explain", query_pb2.ExplainRequest(money_id="m-waits", at=at(1)))
    assert answer.money.where == query_pb2.MONEY_WHERE_WAITING
    assert answer.money.user_id == "ann"
    roles = {o.role: (o.source.topic, o.source.event_time_ms) for o in answer.money.origins}
    assert roles[query_pb2.ORIGIN_ROLE_MONEY] == ("wallet-events", ms(5))


def test_a_users_field_is_explained(client: Client) -> None:
    field = query_pb2.UserFieldOf(user_id="ann", field=query_pb2.USER_FIELD_RESIDENT_COUNTRY_CODE)
    answer = client.call("Query.Explain", query_pb2.ExplainRequest(user_field=field))
    assert answer.user_field.value == "PT"
    assert (answer.user_field.source.topic, answer.user_field.source.event_time_ms) == ("user-events", ms(11))


@pytest.mark.parametrize(
    "call",
    [
        ("Query.GetUser", query_pb2.GetUserRequest(user_id="nobody")),
        ("Query.GetUser", query_pb2.GetUserRequest(user_id="bob", at=at(1))),
        ("Query.GetSession", query_pb2.GetSessionRequest(session_id="none")),
        ("Query.Explain", query_pb2.ExplainRequest(money_id="none")),
        ("Query.DiffUser", query_pb2.DiffUserRequest(user_id="nobody", **{"from": at(1)})),
    ],
    ids=str,
)
def test_what_is_not_there_is_not_found(client: Client, call: tuple[str, Any]) -> None:
    assert failure(lambda: client.call(*call)) == ("NOT_FOUND", "NOT_FOUND")


def between(request: Any, before: int, after: int) -> Any:
    getattr(request, "from").CopyFrom(at(before))
    request.to.CopyFrom(at(after))
    return request


def list_all(client: Client, call: str, request: Any, field: str) -> list[Any]:
    listed: list[Any] = []
    while True:
        answer = client.call(call, request)
        listed += getattr(answer, field)
        request.page_token = answer.next_page_token
        if not answer.next_page_token:
            return listed


def entries_of(job: Job) -> list[tuple[bytes, bytes]]:
    """What the job's changelog has kept, in the order of users, kinds and the rest of the keys."""
    there = [entry for state in job.sim.states for entry in state.entries.items() if entry[0][:1] in SUFFIX_BYTES]
    return sorted(there, key=lambda entry: (owner_of(entry[0]), entry[0]))


@pytest.mark.parametrize("size", [1, 1000])
def test_entries_are_those_of_the_changelog_to_the_byte(server: Server, client: Client, size: int) -> None:
    listed = list_all(client, "Query.ListEntries", query_pb2.ListEntriesRequest(page_size=size), "entries")
    assert [(entry.key, entry.value) for entry in listed] == entries_of(server.job)


def test_entries_of_a_version_before_that_begin_with_a_prefix(client: Client) -> None:
    request = query_pb2.ListEntriesRequest(prefix="a", at=at(1), page_size=1)
    listed = list_all(client, "Query.ListEntries", request, "entries")
    assert [entry.key[:4] for entry in listed] == [b"uann", b"wann"]
    now = list_all(client, "Query.ListEntries", query_pb2.ListEntriesRequest(prefix="a"), "entries")
    assert [entry.key for entry in now] == [b"uann"]
    assert now[0].value != listed[0].value
