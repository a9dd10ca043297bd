"""What a start would change: compares a job as it would run now with the checkpoint that it would continue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from moneystate.engine import plan as plans
from moneystate.engine.inputs import Inputs, is_pattern
from moneystate.errors import MoneystateError
from moneystate.ports.service import JSON_FIELDS, STATE_SCHEMAS, STATE_VERSIONS, TIMED, TOPICS, JobSpec, rule_changes
from moneystate.savepoint.manifest import Manifest
from moneystate.spark.checkpoint import Checkpoint
from moneystate.spark.startup import changed_timed, check_existing
from moneystate.spark.state_checks import unreadable

NEW: Final = "new"
FIXED: Final = ("key_groups", "partitions", "application_id", "topic_prefix")


class Change(NamedTuple):
    """Something that a deployment changes."""

    part: str  # checkpoint, batch, setting, rule, input, schema, state, program or start
    name: str
    before: Any
    after: Any
    effect: str  # in words
    refused: bool = False


def changes(
    spec: JobSpec,
    settings: Mapping[str, Any],
    checkpoint: Checkpoint,
    savepoint: Manifest | None = None,
    drain_until_ms: int | None = None,
) -> list[Change]:
    """`settings`: the start's values of settings that are fixed for the life of a checkpoint; `savepoint`: from which a
    new checkpoint would start; `drain_until_ms`: of the start."""
    if checkpoint.is_new() and savepoint is not None:
        return _of_savepoint(spec, settings, savepoint)
    if checkpoint.is_new():
        return [Change("checkpoint", spec.name, None, NEW, "the job starts from the beginning")]
    try:
        checkpoint.check_version()
    except MoneystateError as e:
        return [Change("start", spec.name, None, None, str(e), refused=True)]
    mine = _of_checkpoint(spec, settings, checkpoint)
    if any(change.refused for change in mine):
        return mine
    return [*mine, *_start(spec, settings, checkpoint, drain_until_ms)]


def _start(
    spec: JobSpec, settings: Mapping[str, Any], checkpoint: Checkpoint, drain_until_ms: int | None
) -> Iterator[Change]:
    """What else a start refuses."""
    try:
        check_existing(checkpoint, settings, spec.rules, False, False, drain_until_ms)
    except MoneystateError as e:
        yield Change("start", spec.name, None, None, str(e), refused=True)


def _of_checkpoint(spec: JobSpec, settings: Mapping[str, Any], checkpoint: Checkpoint) -> list[Change]:
    before = checkpoint.latest_rules()
    read = plans.from_offset(checkpoint.offset(checkpoint.last_planned())).topic_ids
    return [
        *_settings(settings, checkpoint),
        *_batch(spec.rules, checkpoint),
        *_rules(spec.rules, before, "from the next batch on; a replay of everything would differ"),
        *_inputs(spec, before, set(read)),
        *_versions(spec.rules, before),
        *_state(spec, before),
        *_code(spec, checkpoint),
    ]


def _of_savepoint(spec: JobSpec, settings: Mapping[str, Any], savepoint: Manifest) -> list[Change]:
    before, fixed = savepoint.rules, {"job": savepoint.job, "key_groups": savepoint.key_groups}
    read = spec_topics(spec) if savepoint.plan is None else set(plans.from_offset(savepoint.plan).topic_ids)
    refused = "as in the savepoint: start with its rules, a later start may change them"
    return [
        Change("checkpoint", spec.name, None, NEW, "the job starts from the savepoint"),
        *[
            Change("setting", name, was, settings[name], "as in the savepoint", refused=True)
            for name, was in fixed.items()
            if was != settings[name]
        ],
        *[change._replace(refused=change.name in before) for change in _rules(spec.rules, before, refused)],
        *_inputs(spec, before, read),
        *_versions(spec.rules, before),
        *_state(spec, before),
    ]


def spec_topics(spec: JobSpec) -> set[str]:
    return {topic.name for topic in spec.inputs}


def _settings(settings: Mapping[str, Any], checkpoint: Checkpoint) -> Iterator[Change]:
    before = checkpoint.settings()
    for name in ("job", *FIXED):
        if before.get(name) != settings[name]:
            effect = "fixed for the life of a checkpoint"
            yield Change("setting", name, before.get(name), settings[name], effect, refused=True)


def _batch(rules: Mapping[str, Any], checkpoint: Checkpoint) -> Iterator[Change]:
    if not checkpoint.changed_rules(rules):
        return
    number = checkpoint.last_planned()
    if checkpoint.changed_flags(rules):
        effect = "planned with other rules: finish it first, with --finish-batch and these rules"
        yield Change("batch", str(number), "planned", None, effect, refused=True)
    else:
        yield Change("batch", str(number), "planned", None, "this program takes it over if no part of it is written")


def _rules(rules: Mapping[str, Any], before: Mapping[str, Any], effect: str) -> Iterator[Change]:
    for name, (then, now) in rule_changes(before, rules).items():
        if name not in (TOPICS, TIMED):
            yield Change("rule", name, then, now, effect)


def _inputs(spec: JobSpec, before: Mapping[str, Any], topics: set[str]) -> Iterator[Change]:
    """`topics`: that were read."""
    known, now = Inputs(spec.inputs), spec_topics(spec)
    # a pattern may have been read although no topic matched it
    read = {topic for topic in before.get(TOPICS, {}) if is_pattern(topic)}
    read |= {topic if (reads := known.of(topic)) is None else reads.name for topic in topics}
    for topic in sorted(now - read):
        yield Change("input", topic, None, "read", "from its first offset; events behind the watermark are late")
    for topic in sorted(read - now):
        yield Change(
            "input", topic, "read", None, "no longer read; its buffered events become dead letters (removed_input)"
        )
    for topic in changed_timed(before, spec.rules):
        kinds = ("ordinary", "timed")
        is_timed = topic in spec.rules.get(TIMED, [])
        effect = "its buffered events have no place in the other order"
        yield Change("input", topic, kinds[not is_timed], kinds[is_timed], effect, refused=True)


def _versions(rules: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[Change]:
    known, schemas = set(before.get("known_schemas", [])), set(rules.get("known_schemas", []))
    if schemas - known:
        effect = "records of these schemas are read; they were dead letters before"
        yield Change("schema", "known", None, sorted(schemas - known), effect)
    if known - schemas:
        yield Change("schema", "known", sorted(known - schemas), None, "records of these schemas become dead letters")
    was_json, is_json = before.get(JSON_FIELDS, []), rules.get(JSON_FIELDS, [])
    if was_json != is_json:
        effect = "texts that are not JSON become dead letters; in the state they end the job"
        yield Change("schema", "JSON fields", was_json, is_json, effect)
    was, versions = before.get(STATE_VERSIONS), rules.get(STATE_VERSIONS)
    if was != versions and versions is not None:
        older = was is not None and versions < was
        effect = (
            "this program cannot read the state" if older else "entries are rewritten when they change; no way back"
        )
        if records := _new_records(rules, before):
            effect = f"{', '.join(records)}: {effect}"
        yield Change("state", "versions", was, versions, effect, refused=older)
    if before.get("logic") != rules.get("logic"):
        effect = "the same logs can give other records"
        yield Change("program", "logic", before.get("logic"), rules.get("logic"), effect)


def _new_records(rules: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """The states whose record has another version now, as far as the checkpoint knows."""
    was, now = before.get(STATE_SCHEMAS, {}), rules.get(STATE_SCHEMAS, {})
    return [state for state in now if state in was and {*now[state]} - {*was[state]}]


def _state(spec: JobSpec, before: Mapping[str, Any]) -> Iterator[Change]:
    for one in unreadable(spec, before):
        yield Change("state", one.state, one.schemas, None, f"{one.why}: {one.do}", refused=True)


def _code(spec: JobSpec, checkpoint: Checkpoint) -> Iterator[Change]:
    """A checkpoint of an earlier program has one digest of all functions."""
    effect = "from the next batch on; a replay of everything would differ"
    was, now = checkpoint.functions(), spec.functions
    before: Any = {name: was[name] for name in was if was[name] != now.get(name)}
    after: Any = {name: now[name] for name in now if now[name] != was.get(name)}
    if checkpoint.code() in ("", spec.code):
        return
    if was and before.keys() | after.keys():
        effect = f"{', '.join(sorted({*before, *after}))}: {effect}"
    else:
        before, after = checkpoint.code(), spec.code
    yield Change("program", "functions", before, after, effect)
