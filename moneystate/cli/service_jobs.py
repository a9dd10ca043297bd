"""Builds the jobs of services from flags, for `run` and `plan`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple

import typer

from moneystate.api.rules import plain
from moneystate.cli import services
from moneystate.cli.durations import parse_ms
from moneystate.cli.flag_groups import FormatFlags, RuleFlags
from moneystate.cli.job_flags import JobFlags, planned_job
from moneystate.cli.known_services import KNOWN
from moneystate.cli.option import DURATION, Panel, option
from moneystate.cli.options import Format, error_choice
from moneystate.cli.remembered import Before, before, left_out, with_settings
from moneystate.cli.rule_flags import parted, rules_by_service
from moneystate.cli.service_config import check_used, service_tables
from moneystate.errors import ConfigError, MoneystateError
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.run_options import RunOptions
from moneystate.job.storage.folder import child
from moneystate.kafka.starting import parse_start
from moneystate.ports.service import STATE_SCHEMAS, TOPICS, JobSpec
from moneystate.runtime.job import DEAD_LETTER, FAIL, check_formats, service_spec
from moneystate.runtime.reference import given_in, made_at, service_at, with_rules
from moneystate.runtime.timed import in_order
from moneystate.schemas.services import check_released

# The options of the rules that every service has
OPTIONS: Final = {
    "bound_ms": "bound", "max_future_ms": "max_future", "max_record_bytes": "max_record_bytes", "on_error": "on_error",
}  # fmt: skip


class OnError(StrEnum):
    fail = FAIL
    dead_letter = DEAD_LETTER


Services = Annotated[
    list[str],
    typer.Argument(metavar="SERVICE", help="Services: short names, or MODULE:NAME with a module or its file."),
]


class Prepared(NamedTuple):
    """A job that could be run."""

    spec: JobSpec
    options: RunOptions
    stay: Mapping[str, tuple[Any, Any]] = {}  # rules as in the checkpoint, and what the service declares instead


def prepare(
    context: typer.Context,
    words: Services,
    job_flags: JobFlags,
    rule_flags: RuleFlags,
    on_error: Annotated[OnError, error_choice(OnError)] = OnError.fail,
    format: Format = None,
    lookup_deadline: Annotated[
        str,
        option(
            "lookup-deadline", "With --drain: how long to wait for the replies of open lookups.", Panel.run, DURATION
        ),
    ] = "10m",
) -> list[Prepared]:
    """The jobs that the flags of `run` describe. Raises ConfigError."""
    options = job_flags.options()
    given = parted(words)
    paths = services_of(context, given.services)
    _check_several(paths, options)
    flags = [flag for parameter in context.command.params for flag in parameter.opts if flag.startswith("--")]
    rules = rules_by_service(paths, given.rules, flags)
    ours = {**rule_flags.rules(), "on_error": on_error.value}
    options = replace(options, replies_s=parse_ms(lookup_deadline, "--lookup-deadline") / 1000)
    own = [_own(options, path, len(paths) > 1) for path in paths]
    earlier = [before(one) for one in own]
    specs = [service_spec(path) for path in paths]
    known = [topic for spec in specs for topic in spec.formatted]
    by_format = {topic for spec in specs for topic in spec.formatted if topic not in spec.decoded}
    chosen = FormatFlags(format, options.registry_url or "").by_topic(known, decoded={*known} - by_format)
    given_rules = [*map(with_rules, paths, rules)]
    named = [*map(_as_before, given_rules, earlier)]
    for service in in_order([service_at(path) for path in named]):
        if service.unfit is not None:
            raise service.unfit
    return [
        _prepared(path, {**ours, **left_out(context, OPTIONS, was)}, with_settings(context, one, was), chosen)._replace(
            stay=_staying(given, path)
        )
        for path, given, one, was in zip(named, given_rules, own, earlier, strict=True)
    ]


def services_of(context: typer.Context, words: list[str]) -> list[str]:
    """References of the services that the words stand for, configured. Raises ConfigError."""
    tables = service_tables(context)
    references = [reference for word in words for reference in services.load_all(word, tables)]
    check_used(context, tables, {*words, *KNOWN, *[service_at(reference).name for reference in references]})
    return references


def _as_before(reference: str, earlier: Before) -> str:
    """The reference with the earlier values of the rules that it does not give. Raises ConfigError."""
    rules = made_at(reference).rules
    names = [] if rules is None else [f.name for f in fields(rules)]
    missing = {n: earlier.rules[n] for n in names if n in earlier.rules and n not in given_in(reference)}
    complete = with_rules(reference, missing)
    try:
        made_at(complete)
    except MoneystateError as e:
        raise ConfigError(
            f"{earlier.where}: expected rules that this program has, but {e.message}",
            f"give another value for the rule; those of the checkpoint are {', '.join(missing)}.",
        ) from None
    return complete


def _staying(given: str, complete: str) -> dict[str, tuple[Any, Any]]:
    """The rules that are not given, as the checkpoint has them, where the service declares another value."""
    declared, rules = plain(made_at(given).rules) or {}, plain(made_at(complete).rules) or {}
    return {name: (rules[name], declared[name]) for name in rules if rules[name] != declared[name]}


def _check_several(paths: list[str], options: RunOptions) -> None:
    names = [service_at(path).name for path in paths]
    if not names:
        raise ConfigError("expected a service, found none.", "name it after the command, as MODULE:SERVICE.")
    if len(set(names)) < len(names):
        raise ConfigError(
            f"expected services of different names, found {', '.join(names)}.", "run those of one name by themselves."
        )
    if len(names) > 1 and (options.application_id or options.finish_batch):
        raise ConfigError("--application-id and --finish-batch: expected one service.", "run each by itself.")


def _own(options: RunOptions, path: str, several: bool) -> RunOptions:
    if not several:
        return options
    name = service_at(path).name
    begun = child(options.initial_state, name) if options.initial_state else options.initial_state
    return replace(options, checkpoint=child(options.checkpoint, name), initial_state=begun)


def _prepared(path: str, rules: Mapping[str, Any], options: RunOptions, chosen: Mapping[str, str]) -> Prepared:
    check_released(path)
    service = service_spec(path)
    spec = (
        planned_job(service, options.checkpoint) if options.finish_batch else service.job({**rules, **_saved(options)})
    )
    parse_start(options.starting_offsets, [t.name for t in spec.inputs])  # before a broker is asked
    mine = {**service.formats, **{topic: name for topic, name in chosen.items() if topic in service.formatted}}
    check_formats(path, mine)
    missing = [topic for topic, name in mine.items() if name == "confluent" and not options.registry_url]
    if missing:
        raise ConfigError(f"{missing[0]}: expected a schema registry.", "add --schema-registry URL.")
    return Prepared(spec, replace(options, formats=mine))


def _saved(options: RunOptions) -> dict[str, Any]:
    """Returns what the state that the job begins with says of itself: the numbers of topics, and the schemas of its
    entries."""
    checkpoint, rules = Checkpoint(options.checkpoint), before(options).rules
    saved = {name: rules[name] for name in (TOPICS, STATE_SCHEMAS) if name in rules}
    is_unfinished = not checkpoint.is_new() and checkpoint.planned_rules() is not None
    return saved if STATE_SCHEMAS in saved or not is_unfinished else {**saved, STATE_SCHEMAS: None}
