"""What a start would change: a job as it would run now, against the checkpoint that it would go on with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from moneystate.engine import plan as plans
from moneystate.ports.service import STATE_VERSIONS, VERSION_RULES, JobSpec
from moneystate.spark.checkpoint import Checkpoint

NEW: Final = "new"
TOPICS: Final = "topics"
FIXED: Final = ("key_groups", "partitions", "application_id", "topic_prefix")


class Change(NamedTuple):
    """`part`: checkpoint, batch, setting, rule, input, schema, state or program; `effect`: what it means, in words."""

    part: str
    name: str
    before: Any
    after: Any
    effect: str
    refused: bool = False


def changes(spec: JobSpec, settings: Mapping[str, Any], checkpoint: Checkpoint) -> list[Change]:
    """`settings`: what is fixed for the life of a checkpoint, as the start would have it."""
    if checkpoint.is_new():
        return [Change("checkpoint", spec.name, None, NEW, "the job begins anew")]
    return [
        *_settings(settings, checkpoint),
        *_batch(spec.rules, checkpoint),
        *_rules(spec.rules, checkpoint.latest_rules()),
        *_inputs(spec, checkpoint),
        *_versions(spec.rules, checkpoint.latest_rules()),
    ]


def _settings(settings: Mapping[str, Any], checkpoint: Checkpoint) -> Iterator[Change]:
    before = checkpoint.settings()
    for name in ("job", *FIXED):
        if before.get(name) != settings[name]:
            effect = "fixed for the life of a checkpoint"
            yield Change("setting", name, before.get(name), settings[name], effect, refused=True)


def _batch(rules: Mapping[str, Any], checkpoint: Checkpoint) -> Iterator[Change]:
    changed = checkpoint.changed_rules(rules)
    if not changed:
        return
    number = checkpoint.last_planned()
    if any(name not in VERSION_RULES for name in changed):
        effect = "planned by other rules: finish it first, with --finish-batch and its own rules"
        yield Change("batch", str(number), "planned", None, effect, refused=True)
    else:
        yield Change("batch", str(number), "planned", None, "this program takes it over if no part of it is written")


def _rules(rules: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[Change]:
    for name in sorted({*before, *rules} - {*VERSION_RULES, TOPICS}):
        if before.get(name) != rules.get(name):
            effect = "from the next batch on; a replay of everything would differ"
            yield Change("rule", name, before.get(name), rules.get(name), effect)


def _inputs(spec: JobSpec, checkpoint: Checkpoint) -> Iterator[Change]:
    read = set(plans.from_offset(checkpoint.offset(checkpoint.last_planned())).topic_ids)
    now = {topic.name for topic in spec.inputs}
    for topic in sorted(now - read):
        yield Change("input", topic, None, "read", "from its first offset; events behind the watermark are late")
    for topic in sorted(read - now):
        yield Change("input", topic, "read", None, "not read any more; what is buffered of it is still processed")


def _versions(rules: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[Change]:
    known, schemas = set(before.get("known_schemas", [])), set(rules.get("known_schemas", []))
    if schemas - known:
        effect = "records of these schemas are read, which were dead letters"
        yield Change("schema", "known", None, sorted(schemas - known), effect)
    if known - schemas:
        yield Change("schema", "known", sorted(known - schemas), None, "records of these schemas become dead letters")
    was, versions = before.get(STATE_VERSIONS), rules.get(STATE_VERSIONS)
    if was != versions and versions is not None:
        older = was is not None and versions < was
        effect = (
            "this program cannot read the state" if older else "entries are rewritten when they change; no way back"
        )
        yield Change("state", "versions", was, versions, effect, refused=older)
    if before.get("logic") != rules.get("logic"):
        effect = "the same logs can give other records"
        yield Change("program", "logic", before.get("logic"), rules.get("logic"), effect)
