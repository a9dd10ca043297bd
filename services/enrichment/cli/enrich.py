"""`moneystate enrich`: the money enrichment, live or bounded."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import typer

from moneystate import log
from moneystate.cli.durations import parse_ms
from moneystate.cli.job_flags import job_options, planned_job
from moneystate.cli.option import flagged
from moneystate.cli.options import (
    BOUND,
    DEDUP_TTL,
    LOOKUP_DEADLINE,
    MAX_FUTURE,
    MAX_RECORD_BYTES,
    SESSION_TTL,
    SESSION_WAIT,
    Bound,
    DedupTtl,
    Format,
    Json,
    Lookup,
    LookupDeadline,
    MaxFuture,
    MaxRecordBytes,
    Quiet,
    SessionLookup,
    SessionTtl,
    SessionWait,
    formats,
)
from moneystate.cli.remembered import before, left_out, with_settings
from moneystate.cli.service_jobs import Prepared
from moneystate.cli.watching import Watching, watching_options
from moneystate.kafka.starting import parse_start
from moneystate.spark.jvm_start import begin_run
from moneystate.spark.run_options import RunOptions
from services.enrichment.job import ENRICHMENT, FORMATTED, enrichment_job
from services.enrichment.rules import Rules

OPTIONS: Final = {  # of the rules
    "bound_ms": "bound", "session_ttl_ms": "session_ttl", "dedup_ttl_ms": "dedup_ttl",
    "session_wait_ms": "session_wait", "max_future_ms": "max_future", "lookup": "session_lookup",
    "max_record_bytes": "max_record_bytes",
}  # fmt: skip


def prepared_enrichment(
    context: typer.Context,
    options: RunOptions,
    bound: Bound = BOUND,
    session_ttl: SessionTtl = SESSION_TTL,
    dedup_ttl: DedupTtl = DEDUP_TTL,
    session_wait: SessionWait = SESSION_WAIT,
    max_future: MaxFuture = MAX_FUTURE,
    max_record_bytes: MaxRecordBytes = MAX_RECORD_BYTES,
    session_lookup: Lookup = SessionLookup.none,
    lookup_deadline: LookupDeadline = LOOKUP_DEADLINE,
    format: Format = None,
) -> Prepared:
    """The job that the flags of `enrich` describe. Raises ConfigError."""
    rules = Rules(
        bound_ms=parse_ms(bound, "--bound"),
        session_ttl_ms=parse_ms(session_ttl, "--session-ttl", 1),
        dedup_ttl_ms=parse_ms(dedup_ttl, "--dedup-ttl", 1),
        session_wait_ms=parse_ms(session_wait, "--session-wait"),
        max_future_ms=parse_ms(max_future, "--max-future"),
        lookup=session_lookup is SessionLookup.topic,
        max_record_bytes=max_record_bytes,
    )
    earlier = before(options)
    options = with_settings(context, options, earlier)
    rules = replace(rules, **left_out(context, OPTIONS, earlier))
    spec = planned_job(ENRICHMENT, options.checkpoint) if options.finish_batch else enrichment_job(rules)
    parse_start(options.starting_offsets, [t.name for t in spec.inputs])  # before a broker is asked
    chosen = formats(format or [], options.registry_url or "", FORMATTED)
    replies_s = parse_ms(lookup_deadline, "--lookup-deadline") / 1000
    return Prepared(spec, replace(options, replies_s=replies_s, formats=chosen))


def _enrich(prepared: Prepared, watching: Watching, json_output: Json = False, quiet: Quiet = False) -> None:
    """Enrich money events with sessions and user info.

    Output is exactly once, and events are processed in event-time order. The command ends with code 0 after
    --until-caught-up or SIGTERM, once the current batch is finished.
    """
    log.add_fields(service=prepared.spec.name)
    own = None if prepared.options.local else begin_run(prepared.spec, prepared.options)
    # here: its imports take as long as half of the JVM's start
    from services.enrichment.cli.running import run_prepared

    run_prepared(prepared, watching, own, json_output, quiet)


_prepared = flagged(_enrich, "prepared", flagged(prepared_enrichment, "options", job_options))
enrich = flagged(_prepared, "watching", watching_options)
