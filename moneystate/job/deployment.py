"""What a start would change: compares a job as it would run now with the checkpoint that it would continue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from moneystate.engine import plan as plans
from moneystate.engine.inputs import Inputs, is_pattern
from moneystate.job import refusals
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.refusals import Refusal
from moneystate.job.state_checks import unreadable
from moneystate.ports.service import JSON_FIELDS, STATE_SCHEMAS, STATE_VERSIONS, TIMED, TOPICS, JobSpec, rule_changes
from moneystate.savepoint.manifest import Manifest

NEW: Final = "new"


class JobChange(NamedTuple):
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
) -> list[JobChange]:
    """`settings`: the start's values of settings that are fixed for the life of a checkpoint; `savepoint`: from which a
    new checkpoint would start; `drain_until_ms`: of the start."""
    if checkpoint.is_new() and savepoint is not None:
        return _of_savepoint(spec, settings, savepoint)
    if checkpoint.is_new():
        return [JobChange("checkpoint", spec.name, None, NEW, "the job starts from the beginning")]
    refused = _refused(refusals.of_checkpoint(checkpoint, settings, spec.rules, drain_until_ms=drain_until_ms))
    if any(change.part == "start" for change in refused):
        return refused
    return [*refused, *_without(refused, _of_checkpoint(spec, checkpoint))]


def _refused(refusals_of: Iterable[Refusal]) -> list[JobChange]:
    return [
        JobChange(one.part, one.name, one.before, one.after, one.effect or str(one.error), True) for one in refusals_of
    ]


def _without(refused: list[JobChange], changes: Iterable[JobChange]) -> Iterator[JobChange]:
    """The changes that are not refused already."""
    told = {(change.part, change.name) for change in refused}
    return (change for change in changes if (change.part, change.name) not in told)


def _of_checkpoint(spec: JobSpec, checkpoint: Checkpoint) -> list[JobChange]:
    before = checkpoint.latest_rules()
    read = plans.from_offset(checkpoint.offset(checkpoint.last_planned())).topic_ids
    return [
        *_batch(spec.rules, checkpoint),
        *_rules(spec.rules, before, "from the next batch on; a replay of everything would differ"),
        *_inputs(spec, before, set(read)),
        *_versions(spec.rules, before),
        *_state(spec, before),
        *_code(spec, checkpoint),
    ]


def _of_savepoint(spec: JobSpec, settings: Mapping[str, Any], savepoint: Manifest) -> list[JobChange]:
    before = savepoint.rules
    read = spec_topics(spec) if savepoint.plan is None else set(plans.from_offset(savepoint.plan).topic_ids)
    refused = _refused(refusals.of_savepoint(savepoint, spec.name, settings["key_groups"], spec.rules, spec.streams))
    others = [
        *_rules(spec.rules, before, "from the first batch on"),
        *_inputs(spec, before, read),
        *_versions(spec.rules, before),
        *_state(spec, before),
    ]
    begins = JobChange("checkpoint", spec.name, None, NEW, "the job starts from the savepoint")
    return [begins, *refused, *_without(refused, others)]


def spec_topics(spec: JobSpec) -> set[str]:
    return {topic.name for topic in spec.inputs}


def _batch(rules: Mapping[str, Any], checkpoint: Checkpoint) -> Iterator[JobChange]:
    if checkpoint.changed_rules(rules):
        effect = "this program takes it over if no part of it is written"
        yield JobChange("batch", str(checkpoint.last_planned()), "planned", None, effect)


def _rules(rules: Mapping[str, Any], before: Mapping[str, Any], effect: str) -> Iterator[JobChange]:
    for name, (then, now) in rule_changes(before, rules).items():
        if name not in (TOPICS, TIMED):
            yield JobChange("rule", name, then, now, effect)


def _inputs(spec: JobSpec, before: Mapping[str, Any], topics: set[str]) -> Iterator[JobChange]:
    """`topics`: that were read."""
    known, now = Inputs(spec.inputs), spec_topics(spec)
    # a pattern may have been read although no topic matched it
    read = {topic for topic in before.get(TOPICS, {}) if is_pattern(topic)}
    read |= {topic if (reads := known.of(topic)) is None else reads.name for topic in topics}
    for topic in sorted(now - read):
        yield JobChange("input", topic, None, "read", "from its first offset; events behind the watermark are late")
    for topic in sorted(read - now):
        yield JobChange(
            "input", topic, "read", None, "no longer read; its buffered events become dead letters (removed_input)"
        )


def _versions(rules: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[JobChange]:
    known, schemas = set(before.get("known_schemas", [])), set(rules.get("known_schemas", []))
    if schemas - known:
        effect = "records of these schemas are read; they were dead letters before"
        yield JobChange("schema", "known", None, sorted(schemas - known), effect)
    if known - schemas:
        yield JobChange(
            "schema", "known", sorted(known - schemas), None, "records of these schemas become dead letters"
        )
    was_json, is_json = before.get(JSON_FIELDS, []), rules.get(JSON_FIELDS, [])
    if was_json != is_json:
        effect = "texts that are not JSON become dead letters; in the state they end the job"
        yield JobChange("schema", "JSON fields", was_json, is_json, effect)
    was, versions = before.get(STATE_VERSIONS), rules.get(STATE_VERSIONS)
    if was != versions and versions is not None:
        effect = "entries are rewritten when they change; no way back"
        if records := _new_records(rules, before):
            effect = f"{', '.join(records)}: {effect}"
        yield JobChange("state", "versions", was, versions, effect)
    if before.get("logic") != rules.get("logic"):
        effect = "the same logs can give other records"
        yield JobChange("program", "logic", before.get("logic"), rules.get("logic"), effect)


def _new_records(rules: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """The states whose record has another version now, as far as the checkpoint knows."""
    was, now = before.get(STATE_SCHEMAS, {}), rules.get(STATE_SCHEMAS, {})
    return [state for state in now if state in was and {*now[state]} - {*was[state]}]


def _state(spec: JobSpec, before: Mapping[str, Any]) -> Iterator[JobChange]:
    for one in unreadable(spec, before):
        yield JobChange("state", one.state, one.schemas, None, f"{one.why}: {one.do}", refused=True)


def _code(spec: JobSpec, checkpoint: Checkpoint) -> Iterator[JobChange]:
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
    yield JobChange("program", "functions", before, after, effect)
