"""`moneystate delivery`: why a subscription got an event, and whether each delivery has its outcome."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from moneystate.cli.command import add, new_group
from moneystate.cli.connection import connected
from moneystate.cli.flag_groups import KafkaFlags
from moneystate.cli.option import TIME, Panel, option
from moneystate.cli.options import AtTime, AtVersion, BootstrapServers, Json, Limit, Quiet, TopicPrefix
from moneystate.cli.tables import print_fields, print_table
from moneystate.cli.times import parse_time_ms
from moneystate.cli.versions import parse_at
from moneystate.cli.work_progress import WorkProgress
from moneystate.deliver.accounts import Fault
from moneystate.deliver.auditing import Audit, Report
from moneystate.deliver.outcomes import Outcome
from moneystate.deliver.router_schemas import delivery_reader
from moneystate.errors import ConfigError, JobError, QueryError
from moneystate.kafka.client import check_reachable
from moneystate.serving.client import Client
from moneystate.state.v1 import state_pb2 as s

ROUTER: Final = "services.delivery.service:delivery"
VERDICTS: Final = ["event", "subscription", "endpoint", "outcome", "detail", "delivery"]
FAULTS: Final = ["event", "subscription", "endpoint", "delivery", "run", "outcomes"]

Subscription = Annotated[str, option(
    "subscription", "Only this subscription, also if it did not match.", Panel.question, "ID",
    shown="all whose type and scope match",
)]  # fmt: skip
From = Annotated[
    str, option("from", "Deliveries that the router wrote from then on.", Panel.question, TIME, scope="delivery")
]
To = Annotated[
    str, option("to", "Deliveries that it wrote before.", Panel.question, TIME, scope="delivery", shown="now")
]


def why(
    client: Client,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The event's topic, without prefix.")],
    event_id: Annotated[str, typer.Argument(metavar="EVENT_ID", help="The event's id.")],
    subscription: Subscription = "",
    at_version: AtVersion = "",
    at_time: AtTime = "",
    limit: Limit = 100,
    json: Json = False,
) -> None:
    """Say why a subscription got an event, or why not.

    Without --subscription, the answer has those whose type and scope match. With it, it has the first condition that
    failed. The answer is as of the event's place in the log. It comes from a query server of the router. The command
    ends with code 1 if the router does not know the event.
    """
    arguments = {"topic": topic, "eventId": event_id, "subscription": subscription, "limit": limit}
    request = s.CallRequest(query="why", arguments=_json(arguments), at=parse_at(at_version, at_time))
    text = client.call("State.Call", request).result.json
    if json:
        typer.echo(text)
    events = _read(text)
    if not events:
        raise QueryError(
            f"{topic}, {event_id}: expected an event that the router knows, found none: it has not read it, took it "
            "for a duplicate, or has forgotten it.",
            "check the topic and the id; why_retention is how long it knows one.",
            1,
        )
    if not json:
        print_table(Console(), VERDICTS, [row for event in events for row in _verdicts(event)])


def audit(
    bootstrap_servers: BootstrapServers,
    kafka_flags: KafkaFlags,
    from_: From,
    to: To = "",
    topic_prefix: TopicPrefix = "",
    limit: Limit = 20,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Count outcomes of deliveries, and name those without exactly one.

    Each run of each event and subscription must have exactly one of DELIVERED, DEAD, CANCELLED and OVERFLOW. The
    command ends with code 5 if one has not. Messages that workers still try have none yet.
    """
    begin_ms = parse_time_ms(from_, "--from")
    end_ms = parse_time_ms(to, "--to") if to else round(time.time() * 1_000)
    if end_ms <= begin_ms:
        raise ConfigError("--to: expected a time after --from.", "correct one of them.")
    settings = kafka_flags.settings()
    check_reachable(bootstrap_servers, settings)
    auditing = Audit(bootstrap_servers, settings, topic_prefix, delivery_reader(ROUTER))
    try:
        with WorkProgress(quiet) as progress:
            report = auditing.report(begin_ms, end_ms, limit, partial(progress.show, "partitions audited"))
    finally:
        auditing.close()
    if json:
        typer.echo(_json(_plain(report)))
    else:
        _show(report)
    totals = report.totals
    if not totals.is_clean:
        raise JobError(
            f"expected one outcome for each of {totals.runs:,} runs, found {totals.open:,} without one and "
            f"{totals.doubled:,} with several.",
            "ask again once workers have caught up; attempts of a message are in the topic delivery-log.",
        )


def _verdicts(event: dict[str, Any]) -> list[list[str]]:
    place = f"{event['topic']}/{event['partition']}/{event['offset']}"
    return [
        [place, its["subscriptionId"], its["endpointId"], its["outcome"], its["detail"], its["deliveryId"]]
        for its in event["verdicts"]
    ] or [[place, "", "", "no subscription matches its type and scope", "", ""]]


def _show(report: Report) -> None:
    totals = report.totals
    counts = {outcome.value: f"{totals.by_outcome[outcome]:,}" for outcome in Outcome}
    print_fields(Console(), {
        "deliveries": f"{totals.deliveries:,}", "runs": f"{totals.runs:,}", **counts,
        "no outcome": f"{totals.open:,}", "several outcomes": f"{totals.doubled:,}",
        "unreadable records": f"{report.unread:,}",
    })  # fmt: skip
    if report.faults:
        print_table(Console(), FAULTS, [_row(fault) for fault in report.faults])


def _row(fault: Fault) -> list[str]:
    event, run = fault.event, fault.run
    return [
        f"{event.topic}/{event.event_id}", event.subscription_id, event.endpoint_id, run.delivery_id, str(run.number),
        ", ".join(fault.outcomes) or "none",
    ]  # fmt: skip


def _plain(report: Report) -> dict[str, Any]:
    totals = report.totals
    return {
        "deliveries": totals.deliveries, "runs": totals.runs,
        "outcomes": {outcome.value: totals.by_outcome[outcome] for outcome in Outcome},
        "open": totals.open, "doubled": totals.doubled, "unread": report.unread,
        "faults": [
            {"topic": f.event.topic, "eventId": f.event.event_id, "subscriptionId": f.event.subscription_id,
             "endpointId": f.event.endpoint_id, "deliveryId": f.run.delivery_id, "run": f.run.number,
             "outcomes": f.outcomes}
            for f in report.faults
        ],
    }  # fmt: skip


# `json` is a parameter of the commands
_json: Final = json.dumps
_read: Final = json.loads

app = new_group("delivery", "What became of events for their subscribers.")
add(app, connected(why), "why")
add(app, audit, "audit")
