"""The query commands of `moneystate state`. Exit codes: 0 answered, 1 not found (at that version), 2 wrong use or not
allowed, 3 the server cannot be reached or has not caught up."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message

from moneystate.cli import state_tables as tables
from moneystate.cli.command import add
from moneystate.cli.connection import connected
from moneystate.cli.option import TIME, VERSION, Panel, choice, option
from moneystate.cli.options import AtTime, AtVersion, Count, Json, Limit, SinceVersion
from moneystate.cli.times import parse_time_ms
from moneystate.errors import ConfigError
from moneystate.query.v1 import admin_pb2, query_pb2, user_pb2, watch_pb2
from moneystate.serving.arguments import Mistyped, version_of
from moneystate.serving.client import Client
from moneystate.state.v1 import header_pb2, status_pb2

PAGE = 1000


class Reason(StrEnum):
    waiting = "waiting"
    late = "late"
    old = "old"
    session_missing = "session-missing"


REASONS = {
    Reason.waiting: user_pb2.PENDING_REASON_WAITING_FOR_SESSION,
    Reason.late: user_pb2.PENDING_REASON_LOOKUP_LATE,
    Reason.old: user_pb2.PENDING_REASON_LOOKUP_OLD,
    Reason.session_missing: user_pb2.PENDING_REASON_LOOKUP_SESSION_MISSING,
}


class Field(StrEnum):
    birth_year = "birth-year"
    country = "country"


FIELDS = {Field.birth_year: query_pb2.USER_FIELD_BIRTH_YEAR, Field.country: query_pb2.USER_FIELD_RESIDENT_COUNTRY_CODE}


UserArgument = Annotated[str, typer.Argument(metavar="USER", help="User id.")]
OneUser = Annotated[str, typer.Argument(metavar="USER", help="Only this user.")]


def register(app: typer.Typer) -> None:
    for name, command in (
        ("get", get), ("session", session), ("users", users), ("pending", pending), ("explain", explain),
        ("diff", diff), ("watch", watch), ("status", status), ("forget", forget), ("forgotten", forgotten),
    ):  # fmt: skip
        add(app, connected(command), name)


def get(
    client: Client,
    user: Annotated[list[str], typer.Argument(metavar="USER", help="User ids.")],
    at_version: AtVersion = "",
    at_time: AtTime = "",
    json: Json = False,
) -> None:
    """Show users' states, all of one version."""
    read_at = parse_at(at_version, at_time)
    if len(user) == 1:
        one = client.call("Query.GetUser", query_pb2.GetUserRequest(user_id=user[0], at=read_at))
        show_answer(one, json, lambda: tables.user(one.header, one.user))
        return
    many = client.call("Query.BatchGetUsers", query_pb2.BatchGetUsersRequest(user_ids=user, at=read_at))
    show_answer(many, json, lambda: tables.results(many))


def session(
    client: Client,
    id: Annotated[str, typer.Argument(metavar="SESSION", help="Session id.")],
    at_version: AtVersion = "",
    at_time: AtTime = "",
    json: Json = False,
) -> None:
    """Show whose session it is, and how long it is valid."""
    request = query_pb2.GetSessionRequest(session_id=id, at=parse_at(at_version, at_time))
    answer = client.call("Query.GetSession", request)
    show_answer(answer, json, lambda: tables.session(answer))


def users(
    client: Client,
    prefix: Annotated[str, option("prefix", "Ids that begin with this.", Panel.question, "TEXT")] = "",
    start: Annotated[str, option("start", "From this id on.", Panel.question, "USER")] = "",
    end: Annotated[str, option("end", "Stop before this id.", Panel.question, "USER")] = "",
    country: Annotated[
        str, option("country", "Resident country. Needs the scope state.read.personal.", Panel.question, "CODE")
    ] = "",
    at_version: AtVersion = "",
    at_time: AtTime = "",
    limit: Limit = 100,
    json: Json = False,
) -> None:
    """List users by id; with --json one line each."""
    request = query_pb2.ListUsersRequest(
        prefix=prefix, start=start, end=end, resident_country_code=country, at=parse_at(at_version, at_time)
    )
    list_pages(client, "Query.ListUsers", request, "users", limit, json, tables.users)


def pending(
    client: Client,
    reason: Annotated[
        Reason | None, choice("reason", "Only money that waits for this reason.", Panel.question, Reason)
    ] = None,
    at_version: AtVersion = "",
    at_time: AtTime = "",
    limit: Limit = 100,
    json: Json = False,
) -> None:
    """List money that is not put out yet, and why.

    The oldest is first; with --json one line each.
    """
    wanted = REASONS[reason] if reason else user_pb2.PENDING_REASON_UNSPECIFIED
    request = query_pb2.ListPendingRequest(reason=wanted, at=parse_at(at_version, at_time))
    list_pages(client, "Query.ListPending", request, "pending", limit, json, tables.pending)


def explain(
    client: Client,
    money_id: Annotated[str, typer.Argument(metavar="MONEY", help="Id of a payment or transaction.")] = "",
    user: Annotated[str, option("user", "Instead of money: a field of this user.", Panel.question, "USER")] = "",
    field: Annotated[Field, choice("field", "With --user: which field.", Panel.question, Field)] = Field.country,
    at_version: AtVersion = "",
    at_time: AtTime = "",
    json: Json = False,
) -> None:
    """Show the events that a value comes from."""
    if bool(money_id) == bool(user):
        raise ConfigError("explain: expected a money id or --user, found both or none.", "give one of them.")
    request = query_pb2.ExplainRequest(at=parse_at(at_version, at_time))
    if user:
        request.user_field.CopyFrom(query_pb2.UserFieldOf(user_id=user, field=FIELDS[field]))
    else:
        request.money_id = money_id
    answer = client.call("Query.Explain", request)
    show_answer(answer, json, lambda: tables.explained(answer, field))


def diff(
    client: Client,
    user: OneUser = "",
    from_version: Annotated[str, option("from-version", "Since this version.", Panel.question, VERSION)] = "",
    from_time: Annotated[
        str, option("from-time", "Since this event time, ISO-8601 with its zone.", Panel.question, TIME)
    ] = "",
    to_version: Annotated[
        str, option("to-version", "Up to this version.", Panel.question, VERSION, shown="the newest")
    ] = "",
    to_time: Annotated[
        str, option("to-time", "Up to this event time, ISO-8601 with its zone.", Panel.question, TIME)
    ] = "",
    limit: Limit = 100,
    json: Json = False,
) -> None:
    """Show what changed between two versions.

    With --json one line for each user.
    """
    before = parse_at(from_version, from_time, "--from-version", "--from-time")
    after = parse_at(to_version, to_time, "--to-version", "--to-time")
    if before is None:
        raise ConfigError("diff: expected --from-version or --from-time, found neither.", "give one of them.")
    if user:
        request = query_pb2.DiffUserRequest(user_id=user, to=after)
        getattr(request, "from").CopyFrom(before)
        answer = client.call("Query.DiffUser", request)
        show_answer(answer, json, lambda: tables.changes(answer.header, [answer.change]))
        return
    between = query_pb2.DiffRequest(to=after)
    getattr(between, "from").CopyFrom(before)
    list_pages(client, "Query.Diff", between, "changes", limit, json, tables.changes)


def watch(client: Client, user: OneUser = "", since: SinceVersion = "", count: Count = 0, json: Json = False) -> None:
    """Show changes as they become readable, until interrupted.

    With --json one line for each message.
    """
    resume = parse_version(since, "--since") if since else None
    if user:
        answers = client.stream("Watch.WatchUser", watch_pb2.WatchUserRequest(user_id=user, after=resume))
    else:
        answers = client.stream("Watch.Watch", watch_pb2.WatchRequest(after=resume))
    seen = 0
    for answer in answers:
        changes = [answer.change] if user and answer.HasField("change") else [] if user else list(answer.changes)
        if json:
            typer.echo(json_line(answer))
        else:
            tables.watched(answer.header, changes)
        seen += len(changes)
        if count and seen >= count:
            answers.cancel()
            return


def status(client: Client, json: Json = False) -> None:
    """Show how current and how large the replica is."""
    answer = client.call("Status.GetStatus", status_pb2.GetStatusRequest())
    show_answer(answer, json, lambda: tables.status(answer))


def forget(
    client: Client,
    user: UserArgument,
    request_id: Annotated[
        str, option("request-id", "Names the request.", Panel.question, "ID", shown="a random one")
    ] = "",
    json: Json = False,
) -> None:
    """Erase a user from state and history.

    Needs the scope state.admin. docs/queries.md has the limits.
    """
    request = admin_pb2.ForgetUserRequest(user_id=user, request_id=request_id)
    answer = client.call("Admin.ForgetUser", request)
    show_answer(answer, json, lambda: tables.forget(user, answer))


def forgotten(client: Client, user: UserArgument, json: Json = False) -> None:
    """Show the proof that a user was erased.

    Needs the scope state.admin.
    """
    answer = client.call("Admin.GetForgotten", admin_pb2.GetForgottenRequest(user_id=user))
    show_answer(answer, json, lambda: tables.forgotten(user, answer))


def parse_at(
    version: str, time_text: str, version_flag: str = "--at-version", time_flag: str = "--at-time"
) -> header_pb2.At | None:
    """Raises ConfigError."""
    if version and time_text:
        raise ConfigError(f"{version_flag}, {time_flag}: expected one of the two, found both.", "leave one out.")
    if version:
        return header_pb2.At(version=parse_version(version, version_flag))
    if not time_text:
        return None
    return header_pb2.At(event_time_ms=parse_time_ms(time_text, time_flag))


def parse_version(text: str, flag: str) -> header_pb2.Version:
    """Raises ConfigError."""
    try:
        return version_of(text)
    except Mistyped as e:
        raise ConfigError(f"{flag} {e}", "use a version as moneystate state status shows it.") from None


def list_pages(
    client: Client,
    call: str,
    request: Any,
    field: str,
    limit: int,
    json: bool,
    show: Callable[[Any, list[Any]], None],
    line: Callable[[Any], str] | None = None,
) -> None:
    """Lists page by page up to `limit`, with a progress line if there is more than one page. `line`: an item as
    JSON."""
    items: list[Any] = []
    began = time.monotonic()
    while True:
        request.page_size = min(limit - len(items), PAGE)
        answer = client.call(call, request)
        page = getattr(answer, field)
        if json:
            for item in page:
                typer.echo((line or json_line)(item))
        items.extend(page)
        request.page_token = answer.next_page_token
        if not answer.next_page_token or len(items) >= limit:
            break
        request.ClearField("at" if "at" in request.DESCRIPTOR.fields_by_name else "to")
        rate = len(items) / max(time.monotonic() - began, 1e-9)
        typer.echo(f"{len(items):,} of at most {limit:,} read, {rate:,.0f}/s", err=True)
    if not json:
        show(answer.header, items)
    if answer.next_page_token:
        typer.echo(f"There are more than the {limit:,} shown. Do: raise --limit.", err=True)


def show_answer(answer: Message, json: bool, show: Callable[[], None]) -> None:
    if json:
        typer.echo(MessageToJson(answer, preserving_proto_field_name=True))
    else:
        show()


def json_line(message: Message) -> str:
    return MessageToJson(message, preserving_proto_field_name=True, indent=None)
