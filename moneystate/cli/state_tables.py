"""Answers of the query server as tables."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from google.protobuf.message import Message
from rich.console import Console
from rich.text import Text

from moneystate.cli.tables import print_table
from moneystate.engine.items import END_OF_TIME
from moneystate.query.v1 import admin_pb2, query_pb2, user_pb2, watch_pb2
from moneystate.records.iso_time import from_ms
from moneystate.state.v1 import header_pb2, status_pb2

PIPE_WIDTH = 1_000

# a pipe has no width, so rows must not be broken
console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def user(header: header_pb2.Header, view: user_pb2.User) -> None:
    heading(header)
    table(["field", "value", "from"], _user_rows(view), title=view.user_id)
    if view.waiting or view.looking_up:
        _pending_table([*view.waiting, *view.looking_up])


def results(answer: query_pb2.BatchGetUsersResponse) -> None:
    users(answer.header, [r.user for r in answer.results if r.HasField("user")])
    for result in answer.results:
        if not result.HasField("user"):
            say(f"{result.user_id}: nothing is known")
    for id in answer.unanswered_user_ids:
        say(f"{id}: left out, because the answer is too large; ask for it separately")


def users(header: header_pb2.Header, user_list: Sequence[user_pb2.User]) -> None:
    heading(header)
    columns = ["user", "birth year", "country", "types", "sessions", "seen money", "waiting", "looking up"]
    rows: Iterable[Sequence[Any]] = (
        [
            u.user_id, _personal(u, "birth_year"), _personal(u, "resident_country_code"),
            ", ".join(t.type for t in u.money_types), len(u.sessions), len(u.seen_money), len(u.waiting),
            len(u.looking_up),
        ]
        for u in user_list
    )  # fmt: skip
    table(columns, rows)


def session(answer: query_pb2.GetSessionResponse) -> None:
    heading(answer.header)
    session_state = answer.session
    row = [
        session_state.session_id,
        answer.user_id,
        _personal(session_state, "client_country_code"),
        time_of(session_state.expires_ms),
        _source(session_state),
    ]
    table(["session", "user", "client country", "expires", "from"], [row])


def pending(header: header_pb2.Header, money: Sequence[user_pb2.PendingMoney]) -> None:
    heading(header)
    _pending_table(money)


def explained(answer: query_pb2.ExplainResponse, field: str) -> None:
    heading(answer.header)
    if answer.HasField("user_field"):
        table([field, "from"], [[_value(answer.user_field), _source(answer.user_field)]])
        return
    money = answer.money
    where = _name(query_pb2.MoneyWhere.Name, money.where, "MONEY_WHERE_")
    say(f"money {money.money_id} of user {money.user_id}: {where}")
    if money.HasField("pending"):
        _pending_table([money.pending])
    rows = [[_role(o.role), place_of(o.source), time_of(o.source.event_time_ms)] for o in money.origins]
    if money.HasField("enriched"):
        rows.append(["put out as", place_of(money.enriched), time_of(money.enriched.event_time_ms)])
    table(["what", "event", "time"], rows)


def changes(header: header_pb2.Header, user_changes: Sequence[query_pb2.UserChange]) -> None:
    heading(header)
    rows: list[list[Any]] = []
    for change in user_changes:
        before = _facts(change.before) if change.HasField("before") else {}
        after = _facts(change.after) if change.HasField("after") else {}
        names = [*before, *(n for n in after if n not in before)]
        differing = [n for n in names if before.get(n) != after.get(n)]
        rows += [[change.user_id, n, before.get(n, ""), after.get(n, "")] for n in differing]
    table(["user", "field", "before", "after"], rows)


def watched(header: header_pb2.Header, watched_changes: Iterable[watch_pb2.WatchedChange]) -> None:
    """Prints a line for each change, because a stream cannot wait for a table's widths."""
    for change in watched_changes:
        known = ", ".join(f"{k} {v}" for k, v in _facts(change.user).items()) if change.HasField("user") else "gone"
        say(f"{version(header.version)}  {change.user_id}: {known or 'nothing left'}")


def status(answer: status_pb2.GetStatusResponse) -> None:
    heading(answer.header)
    rows = [
        ["caught up", "yes" if answer.caught_up else "no"],
        ["oldest version", version(answer.oldest)],
        ["records behind", f"{answer.lag_records:,}"],
        ["users", f"about {answer.users:,}"],
        ["key groups", str(answer.key_groups)],
        ["database", f"{answer.database_bytes / 1e6:,.1f} MB"],
        ["server", answer.server_version],
    ]
    rows += [[_counted(c), f"{c.entries:,}"] for c in answer.schema_counts]
    table(["what", "value"], rows)


def _counted(count: status_pb2.SchemaCount) -> str:
    """Returns what is counted: entries of a schema, or without a version what could not be used."""
    return f"{count.kind} entries, schema v{count.schema_version}" if count.schema_version else count.kind


def forget(user_id: str, answer: admin_pb2.ForgetUserResponse) -> None:
    say(f"asked to forget {user_id}: request {answer.request_id} at {place_of(answer.request)}")
    say(f"`moneystate state forgotten {shlex.quote(user_id)}` shows the proof once the job has erased the user.")


def forgotten(user_id: str, answer: admin_pb2.GetForgottenResponse) -> None:
    heading(answer.header)
    row = [user_id, answer.request_id, answer.requested_by, time_of(answer.forgotten_at_ms), place_of(answer.request)]
    table(["user", "request", "asked for by", "forgotten at", "from"], [row])


def version(message: header_pb2.Version) -> str:
    return f"{message.epoch}/{message.batch}" if message.epoch else "none yet"


def heading(header: header_pb2.Header) -> None:
    watermark = time_of(header.watermark_ms) if header.HasField("watermark_ms") else "none yet"
    say(f"version {version(header.version)}, watermark {watermark}, {header.staleness_ms:,} ms old")


def _user_rows(view: user_pb2.User) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for name, field in (("birth year", "birth_year"), ("country", "resident_country_code")):
        if view.HasField(field):
            rows.append([name, _personal(view, field), _source(getattr(view, field))])
    rows += [["money type", t.type, _source(t)] for t in view.money_types]
    rows += [["session", f"{s.session_id} until {time_of(s.expires_ms)}", _source(s)] for s in view.sessions]
    rows += [["seen money", f"{m.money_id} at {time_of(m.seen_at_ms)}", _source(m)] for m in view.seen_money]
    rows += [["kept reply", f"{r.money_id} asked {time_of(r.requested_at_ms)}", _source(r)] for r in view.replies]
    return rows


def _facts(view: user_pb2.User) -> dict[str, str]:
    """A user in a few words, to show changes."""
    return {
        name: text
        for name, text in (
            ("birth year", _personal(view, "birth_year")),
            ("country", _personal(view, "resident_country_code")),
            ("types", ", ".join(t.type for t in view.money_types)),
            ("sessions", ", ".join(s.session_id for s in view.sessions)),
            ("seen money", ", ".join(m.money_id for m in view.seen_money)),
            ("waiting", ", ".join(p.money_id for p in view.waiting)),
            ("looking up", ", ".join(p.money_id for p in view.looking_up)),
            ("replies", ", ".join(r.money_id for r in view.replies)),
        )
        if text
    }


def _pending_table(pending_money: Sequence[user_pb2.PendingMoney]) -> None:
    columns = ["money", "user", "amount", "type", "session", "waits for", "since", "from"]
    rows: Iterable[Sequence[Any]] = (
        [
            p.money_id, p.user_id, f"{p.amount} {p.currency}", p.money_type, p.session_id, _reason(p.reason),
            time_of(p.requested_at_ms if p.HasField("requested_at_ms") else p.order_time_ms), _source(p),
        ]
        for p in pending_money
    )  # fmt: skip
    table(columns, rows)


def table(columns: list[str], rows: Iterable[Sequence[Any]], title: str = "") -> None:
    """Prints texts literally: values from events must not be read as markup, and their control characters must not
    reach a terminal."""
    cells = [[_plain(str(cell)) for cell in row] for row in rows]
    if cells:
        print_table(console, columns, cells, _plain(title).plain)
    else:
        console.print(Text("nothing"))


def _plain(text: str) -> Text:
    return Text("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text))


def say(text: str) -> None:
    console.print(_plain(text))


def _personal(message: Message, field: str) -> str:
    return _value(getattr(message, field)) if message.HasField(field) else ""


def _value(personal_text: user_pb2.PersonalText) -> str:
    return "(masked)" if personal_text.masked else personal_text.value


def _source(message: Any) -> str:
    return place_of(message.source) if message.HasField("source") else ""


def place_of(event_source: header_pb2.Source) -> str:
    return f"{event_source.topic}[{event_source.partition}]@{event_source.offset}"


def time_of(ms: int) -> str:
    return "the end (drained)" if ms >= END_OF_TIME else from_ms(ms)


def _name(names: Callable[[Any], str], value: Any, prefix: str) -> str:
    return names(value).removeprefix(prefix).lower().replace("_", " ")


def _reason(reason: user_pb2.PendingReason) -> str:
    return _name(user_pb2.PendingReason.Name, reason, "PENDING_REASON_")


def _role(role: query_pb2.OriginRole) -> str:
    return _name(query_pb2.OriginRole.Name, role, "ORIGIN_ROLE_")
