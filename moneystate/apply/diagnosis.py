"""What is wrong, or will be, with the surroundings of `moneystate apply`: for `moneystate apply doctor`.

It makes the checks of a start, each by itself, and reads only.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from confluent_kafka.admin import AdminClient

from moneystate.apply.bookkeeping import Bookkeeping
from moneystate.apply.catalogue import other_constraints
from moneystate.apply.config import Settings
from moneystate.apply.database import Connected
from moneystate.apply.process import AnyTarget, applied, check_tables, connected
from moneystate.apply.rows_target import Rows
from moneystate.apply.status import longest_transaction_s
from moneystate.apply.topic_checks import check_id, check_left, logs_of, position_in
from moneystate.errors import MoneystateError
from moneystate.kafka import findings
from moneystate.kafka.client import admin_client, check_reachable
from moneystate.kafka.findings import Finding, Level
from moneystate.kafka.topics import topic_settings

LONG_S: Final = 600.0  # a transaction that is open for longer keeps deleted rows of the outbox from being removed


def diagnose(settings: Settings) -> list[Finding]:
    """All findings. Raises ConfigError for a target whose service or function cannot be imported."""
    targets = [applied(target, settings) for target in settings.targets]
    admin = admin_client(settings.bootstrap_servers, dict(settings.kafka))
    reached = findings.tried("broker", partial(_reached, settings))
    report = list(reached)
    if not _has_errors(reached):
        for target in targets:
            report += findings.tried(target.where, partial(_topics, admin, target))
    report += findings.tried("database", partial(_of_database, settings, targets))
    if not _has_errors(report):
        report += findings.tried("database", partial(_of_positions, settings, targets, admin))
    return report


def _has_errors(report: list[Finding]) -> bool:
    return any(finding.level is Level.error for finding in report)


def _reached(settings: Settings) -> list[Finding]:
    check_reachable(settings.bootstrap_servers, dict(settings.kafka))
    return [findings.ok("broker", f"{settings.bootstrap_servers} answers and lets this user in.")]


def _topics(admin: AdminClient, target: AnyTarget) -> list[Finding]:
    count = len(logs_of(admin, target.topics).starts)
    settings = {name: its for name, its in topic_settings(admin, target.topics).items() if its}
    problems = [f for f in findings.replication_findings(admin, target.topics, settings) if f.level is not Level.ok]
    return problems or [findings.ok(target.where, f"{', '.join(target.topics)}: {count} partitions.")]


def _of_database(settings: Settings, targets: list[AnyTarget]) -> list[Finding]:
    with connected(settings) as connection:
        version = connection.info.server_version // 10_000
        report = [findings.ok("database", f"PostgreSQL {version} answers and lets this user in.")]
        report += findings.tried("tables", partial(_tables, connection, settings))
        for target in targets:
            report += findings.tried(target.where, partial(_fits, connection, target))
        longest_s = longest_transaction_s(connection)
        if longest_s > LONG_S:
            text = (
                f"expected no transaction longer than {LONG_S:.0f} s, found one of {longest_s:.0f} s: it keeps deleted "
                "rows of the outbox from being removed, and makes it slow."
            )
            report.append(findings.warning("database", text, "end it; pg_stat_activity names it."))
        return report


def _tables(connection: Connected, settings: Settings) -> list[Finding]:
    check_tables(connection, settings)
    return [findings.ok("tables", f"those of positions, outbox and versions are in the schema {settings.schema}.")]


def _fits(connection: Connected, target: AnyTarget) -> list[Finding]:
    target.prepare(connection)
    names = other_constraints(connection, target.target.table) if isinstance(target, Rows) else []
    if names:
        text = (
            f"expected no constraint beside the key, found {', '.join(names)}: which records become dead letters may "
            "depend on how they are cut into transactions."
        )
        return [findings.warning(target.where, text, "check the rule where the records are written, or accept this.")]
    return [findings.ok(target.where, "its tables fit.")]


def _of_positions(settings: Settings, targets: list[AnyTarget], admin: AdminClient) -> list[Finding]:
    books = Bookkeeping(settings.schema, settings.application)
    report: list[Finding] = []
    with connected(settings) as connection:
        for target in targets:
            report += _positions(connection, books, target, admin)
        waiting = books.count(connection, settings.outbox_limit)
    if waiting >= settings.outbox_limit:
        text = f"expected fewer than {settings.outbox_limit:,} rows, found as many: applying pauses."
        do = "check that a process has partition 0 of the first topic, and that it can write to Kafka."
        report.append(findings.warning("outbox", text, do))
    return report


def _positions(connection: Connected, books: Bookkeeping, target: AnyTarget, admin: AdminClient) -> list[Finding]:
    """The checks that a start makes of each position, and what has stopped."""
    stored, left_s = books.stored(connection, target.name), books.left_s(connection, target.name)
    logs = logs_of(admin, target.topics)
    problems: list[Finding] = []
    for p, (offset, topic_id) in sorted(stored.items()):
        try:
            check_id(target.name, p.topic, topic_id, logs.ids[p.topic])
            check_left(target.name, p, logs, left_s[p])
            position_in(target.name, p, offset, logs, skip_lost=False)
        except MoneystateError as e:
            problems.append(findings.error(target.where, e.message, e.do))
    do = "correct the function or the table and start again; --on-error dead-letter goes on without the record."
    problems += [
        findings.error(target.where, f"{p.topic} partition {p.number} has stopped: {why}.", do)
        for p, why in books.stops(connection, target.name).items()
    ]
    if problems or not stored:
        return problems
    return [findings.ok(target.where, f"the logs have the records that follow its {len(stored)} positions.")]
