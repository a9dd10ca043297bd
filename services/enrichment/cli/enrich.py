"""`moneystate enrich`: the money enrichment, live or bounded."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import typer

from moneystate import log
from moneystate.cli.durations import parse_ms
from moneystate.cli.flag_groups import RuleFlags, SessionFlags
from moneystate.cli.job_flags import job_options, planned_job
from moneystate.cli.option import flagged
from moneystate.cli.options import (
    LOOKUP_DEADLINE,
    Format,
    Json,
    LookupDeadline,
    Quiet,
)
from moneystate.cli.remembered import before, left_out, with_settings
from moneystate.cli.service_jobs import Prepared
from moneystate.cli.topic_formats import formats
from moneystate.cli.watching import Watching, watching_options
from moneystate.job.run_options import RunOptions
from moneystate.kafka.starting import parse_start
from moneystate.spark.jvm_start import begin_run
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
    rule_flags: RuleFlags,
    session_flags: SessionFlags,
    lookup_deadline: LookupDeadline = LOOKUP_DEADLINE,
    format: Format = None,
) -> Prepared:
    """The job that the flags of `enrich` describe. Raises ConfigError."""
    rules = Rules(**rule_flags.rules(), **session_flags.rules())
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
