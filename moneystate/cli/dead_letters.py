"""`moneystate dead-letters`: what was rejected and why, and sending it again."""

from __future__ import annotations

import base64
import getpass
import json
import os
import re
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any

import typer
from rich.console import Console

from moneystate.cli.command import add, new_group
from moneystate.cli.flag_groups import ClusterFlags
from moneystate.cli.option import TIME, Flags, Panel, flag, flagged, option
from moneystate.cli.options import GivenService, Json, Limit, Quiet
from moneystate.cli.service_broker import reach
from moneystate.cli.tables import Cell, print_fields, print_table
from moneystate.cli.times import parse_time_ms
from moneystate.cli.work_progress import WorkProgress
from moneystate.errors import ConfigError
from moneystate.kafka.dead_letter_log import DeadLetterLog, Filter, StoredLetter
from moneystate.log import get_log
from moneystate.records.iso_time import from_ms

COLUMNS = ["letter", "written", "reason", "detail", "record", "key"]
DRY_RUN = "this is what would be sent; add --confirm to send it"
_log = get_log(__name__)

app = new_group("dead-letters", "Records that a service has rejected.")

Places = Annotated[
    list[str] | None, typer.Argument(metavar="PARTITION/OFFSET", help="Letters, as list shows them.")
]  # fmt: skip


def _letters(context: typer.Context, cluster: ClusterFlags, service: GivenService) -> DeadLetterLog:
    job, settings = reach(context, cluster, service)
    return DeadLetterLog(
        cluster.bootstrap_servers,
        settings,
        cluster.topic_prefix + job.streams[job.dead_letter_stream],
        cluster.topic_prefix,
    )


@dataclass(frozen=True)
class FilterFlags(Flags):
    reason: Annotated[
        list[str] | None, option("reject-reason", "Only letters of this reason.", Panel.question, "REASON")
    ] = None
    written_since: str = flag("", "Only letters written at this time or later.", Panel.question, TIME)
    written_until: str = flag("", "Only letters written before this time.", Panel.question, TIME)
    record_key: str = flag("", "Only letters with this Kafka key.", Panel.question, "KEY")

    def chosen(self, places: frozenset[str] = frozenset()) -> Filter:
        """Raises ConfigError."""
        return Filter(
            frozenset(self.reason or []),
            parse_time_ms(self.written_since, "--written-since") if self.written_since else None,
            parse_time_ms(self.written_until, "--written-until") if self.written_until else None,
            self.record_key.encode() if self.record_key else None,
            places,
        )


def _list(log: DeadLetterLog, flags: FilterFlags, limit: Limit = 100, json_output: Json = False) -> None:
    """Show dead letters with their reasons."""
    letters = list(islice(log.read(flags.chosen()), limit))
    if json_output:
        typer.echo(json.dumps([_summary(one) for one in letters]))
    elif not letters:
        typer.echo("no dead letters")
    else:
        print_table(Console(highlight=False), COLUMNS, [_row(one) for one in letters])


def _show(log: DeadLetterLog, places: Places = None, json_output: Json = False) -> None:
    """Show dead letters with their records."""
    if not places:
        raise ConfigError("show: expected PARTITION/OFFSET, found none.", "take it from moneystate dead-letters list.")
    letters = list(log.read(Filter(places=_checked(places))))
    missing = {*places} - {one.place for one in letters}
    if missing:
        raise ConfigError(
            f"{log.topic}: expected a letter at {min(missing)}, found none.",
            "take PARTITION/OFFSET from moneystate dead-letters list.",
        )
    if json_output:
        typer.echo(json.dumps([_whole(one) for one in letters]))
        return
    for one in letters:
        print_fields(Console(highlight=False), {name: _cell(content) for name, content in _whole(one).items()})


def _resend(
    log: DeadLetterLog,
    flags: FilterFlags,
    places: Places = None,
    confirm: Annotated[
        bool, option("confirm", "Send the records. Without it, the command only shows what it would do.", Panel.run)
    ] = False,
    quiet: Quiet = False,
    json_output: Json = False,
) -> None:
    """Send records to their input topics again.

    A record keeps its partition, key, value and headers, and gets the header moneystate.resent, which names the letter.
    Its event time is what it was, so the service may see it as late. Sending a record twice is not prevented: use
    unique= in the service. The log says who has sent how many records of which filter.
    """
    with WorkProgress(quiet) as progress:
        some = flags.chosen(_checked(places or []))
        letters = list(log.read(some, lambda done, total: progress.show("letters read", done, total)))
        sends, gone = log.planned(letters)
        if confirm and sends:
            _log.info(
                f"resending {len(sends):,} dead letters of {log.topic}", user=_user(), topic=log.topic,
                records=len(sends), reasons=sorted(some.reasons), since_ms=some.since_ms, until_ms=some.until_ms,
                chosen=len(some.places), by_key=some.key is not None,
            )  # fmt: skip
            log.send(sends, lambda done, total: progress.show("records sent", done, total))
            _log.info(f"resent {len(sends):,} dead letters of {log.topic}", topic=log.topic, records=len(sends))
    topics = {topic: sum(one.topic == topic for one in sends) for topic in sorted({one.topic for one in sends})}
    result = {"sent": len(sends) if confirm else 0, "to_send": len(sends), "gone": len(gone), "topics": topics}
    if json_output:
        typer.echo(json.dumps({**result, "confirmed": confirm}))
        return
    for topic, n in topics.items():
        typer.echo(f"{n:,} records {'sent' if confirm else 'to send'} to {topic}")
    if gone:
        typer.echo(f"{len(gone):,} letters have no record any more: {', '.join(one.place for one in gone[:10])}")
    typer.echo(DRY_RUN if sends and not confirm else "no dead letters" if not letters else "done")


def _checked(places: list[str]) -> frozenset[str]:
    for place in places:
        if not re.fullmatch(r"[0-9]{1,9}/[0-9]{1,18}", place):
            raise ConfigError(f"{place}: expected PARTITION/OFFSET.", "take it from moneystate dead-letters list.")
    return frozenset(places)


def _user() -> str:
    """The user of this machine; in a container it may have no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _summary(one: StoredLetter) -> dict[str, Any]:
    source = one.source
    return {
        "letter": one.place,
        "written": _written(one),
        "reason": one.about.get("reason", ""),
        "detail": one.about.get("detail", ""),
        "topic": source[0] if source else None,
        "partition": source[1] if source else None,
        "offset": source[2] if source else None,
        "timestamp_ms": int(one.about["timestamp"]) if one.about.get("timestamp", "-1") != "-1" else None,
        "key": _text(one.letter.key),
    }


def _whole(one: StoredLetter) -> dict[str, Any]:
    return {
        **_summary(one),
        "headers": {name: _text(content) for name, content in one.headers},
        "value": _text(one.letter.value),
    }


def _row(one: StoredLetter) -> list[Cell]:
    its = _summary(one)
    source = one.source
    record = "-" if source is None else "/".join(map(str, source))
    return [its["letter"], its["written"], its["reason"], its["detail"], record, its["key"] or "-"]


def _cell(content: Any) -> Cell:
    return content if isinstance(content, str) else "-" if content is None else json.dumps(content)


def _written(one: StoredLetter) -> str:
    return from_ms(one.letter.timestamp_ms) if one.letter.timestamp_ms >= 0 else "-"


def _text(content: bytes | None) -> str | None:
    """UTF-8 as it is, other bytes in Base64."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(content).decode()


add(app, flagged(_list, "log", _letters), "list")
add(app, flagged(_show, "log", _letters), "show")
add(app, flagged(_resend, "log", _letters), "resend", logs=True)
