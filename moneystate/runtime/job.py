"""A service as a job for the engine: implements the platform's port (`moneystate.ports.service`)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from types import FunctionType, MethodType
from typing import Any, Final

from moneystate.api.handles import MapAt
from moneystate.api.rules import plain
from moneystate.api.service import Service
from moneystate.api.tables import KeepRow, TakeEffect
from moneystate.engine.avro import MAGIC
from moneystate.engine.inputs import is_pattern, matches
from moneystate.engine.items import Output
from moneystate.engine.processor import InputTopic
from moneystate.ports.service import (
    ARRIVALS,
    JSON_FIELDS,
    STATE_SCHEMAS,
    STATE_VERSIONS,
    TABLES,
    TIMED,
    TIMER_STATE,
    TOPICS,
    UNIQUE_STATE,
    JobSpec,
    ServiceSpec,
    Stream,
)
from moneystate.records.platform_records import SEEN_RECORD
from moneystate.records.schema import header_of, schema_of
from moneystate.records.shapes import Record, is_json, paths
from moneystate.runtime import layout
from moneystate.runtime.cells import decode_entry
from moneystate.runtime.decoder import ServiceDecoder
from moneystate.runtime.folders import folder_of
from moneystate.runtime.function_code import code_text, function_in
from moneystate.runtime.json_topic import JSON
from moneystate.runtime.json_topic_checks import check_json_topic
from moneystate.runtime.lookup_steps import LOOKING_UP
from moneystate.runtime.plan import Plan
from moneystate.runtime.plans import plan_of, released_state
from moneystate.runtime.processor import MAX_RECORD_BYTES, ServiceProcessor
from moneystate.runtime.reference import service_at, with_rules
from moneystate.runtime.seen_page import SeenKind
from moneystate.runtime.state_model import ServiceState

LOGIC_VERSION: Final = 1  # of the runtime; raised when the same service and logs would give different records
FAIL, DEAD_LETTER = "fail", "dead-letter"
PLATFORM_RULES: Final[Mapping[str, Any]] = {  # rules that every service has, with their defaults
    "bound_ms": 20_000,
    "max_future_ms": 600_000,
    "max_record_bytes": MAX_RECORD_BYTES,
    "on_error": FAIL,
}
RESERVED: Final = (
    ARRIVALS,
    "bounds",
    JSON_FIELDS,
    "known_schemas",
    "logic",
    "max_futures",
    STATE_SCHEMAS,
    STATE_VERSIONS,
    TABLES,
    TIMED,
    TOPICS,
)


@dataclass(frozen=True)
class Parts:
    """The picklable description from which Spark's processes create the service."""

    reference: str
    codes: tuple[tuple[str, int], ...]  # topics and the numbers that represent them in the state
    dead_letter_errors: bool = False
    max_record_bytes: int = MAX_RECORD_BYTES
    formats: tuple[tuple[str, str], ...] = ()  # that the run gives its topics
    timers: tuple[str, ...] = ()  # that were ever declared

    def processor(self) -> ServiceProcessor:
        plan = plan_of(self.reference, self.codes)
        return ServiceProcessor(
            plan, self.dead_letter_errors, self.max_record_bytes, dict(self.formats), timers=self.timers
        )

    def in_formats(self, formats: Mapping[str, str]) -> Callable[[], ServiceProcessor]:
        return replace(self, formats=tuple(sorted(formats.items()))).processor


def decoder(text: str) -> ServiceDecoder:
    """The decoder that `decoder_path` describes."""
    reference, codes, dead_letter_errors = json.loads(text)
    return ServiceDecoder(plan_of(reference, tuple(sorted(codes.items()))), dead_letter_errors)


def decoder_path(reference: str, codes: Mapping[str, int], dead_letter_errors: bool) -> str:
    return f"{__name__}:{decoder.__name__} {json.dumps([reference, dict(sorted(codes.items())), dead_letter_errors])}"


def service_spec(reference: str, earlier: Mapping[str, Any] | None = None) -> ServiceSpec:
    """The service of a reference. `earlier`: the saved rules of an earlier run, which include the topics' numbers."""
    reference = with_rules(reference, _service_rules(reference, earlier or {}))
    plan = plan_of(reference, _codes(earlier or {}))
    service = plan.service
    formats = {declared.topic: declared.format for declared in service.inputs}
    formats |= {declared.topic: declared.format for declared in service.outputs}
    by_format = {i.topic for i in service.inputs if i.decode is None} | {o.topic for o in service.outputs}
    return ServiceSpec(
        name=service.name,
        job=partial(job_spec, reference),
        state=ServiceState(reference, plan.codes),
        formatted=sorted(formats),
        formats=formats,
        decoded=sorted({*formats} - by_format),
    )


def job_spec(reference: str, rules: Mapping[str, Any]) -> JobSpec:
    """The job of a service. `rules` come from the command line or a checkpoint; missing rules have their defaults."""
    reference = with_rules(reference, _service_rules(reference, rules))
    plan = plan_of(reference, _codes(rules))
    service = plan.service
    service_rules = plain(plan.rules) or {}
    platform_rules = {name: rules.get(name, default) for name, default in PLATFORM_RULES.items()}
    codes = tuple(sorted(plan.codes.items()))
    state_schemas = _state_schemas(plan, rules)
    parts = Parts(
        reference, codes, platform_rules["on_error"] == DEAD_LETTER, platform_rules["max_record_bytes"],
        timers=_timers(state_schemas.get(STATE_SCHEMAS, {})),
    )  # fmt: skip
    inputs, limits = with_limits(plan.input_topics(), rules)
    return JobSpec(
        name=service.name,
        inputs=inputs,
        decoder=decoder_path(reference, plan.codes, parts.dead_letter_errors),
        make=parts.processor,
        make_in=parts.in_formats,
        streams=[*plan.streams, f"{service.name}-dead-letters"],
        dead_letter_stream=plan.dead_letter_stream,
        changelog=f"{service.name}-state",
        commits=f"{service.name}-commits",
        rules={
            **service_rules,
            **platform_rules,
            "known_schemas": known_schemas(reference),
            "logic": LOGIC_VERSION,
            STATE_VERSIONS: len(released_state(reference)),
            TOPICS: dict(codes),
            **state_schemas,
            **_json_fields(plan),
            **limits,
            **_tables(plan),
        },
        bound_ms=platform_rules["bound_ms"],
        max_future_ms=platform_rules["max_future_ms"],
        max_record_bytes=platform_rules["max_record_bytes"],
        largest=_largest(service, platform_rules["max_record_bytes"]),
        asked_again=partial(asked_again, reference, codes),
        pending_counter=LOOKING_UP if service.lookups else None,
        state=ServiceState(reference, plan.codes),
        reader_rules=[*sorted(service_rules), "topics"],
        service=reference,
        readable=_readable(plan),
        code=code_of(service),
        functions=digests_of(service),
        timed=list(dict.fromkeys([o.topic for o in service.outputs if o.timed])),
        dated=list(dict.fromkeys([o.topic for o in service.outputs if o.record_time is not None])),
        created={o.topic: Stream(o.partitions, o.compacted, o.keep_ms) for o in service.outputs},
        copies_tables=any(not table.local for table in service.tables.values()),
        counters=_counters(service),
        topic_schemas=partial(schemas_by_topic, reference, codes),
    )


def _state_schemas(plan: Plan, rules: Mapping[str, Any]) -> dict[str, dict[str, list[str]]]:
    """The schemas of entries that were written before, as far as `rules` have them, and of those that this program
    writes."""
    saved = rules.get(STATE_SCHEMAS, None if "logic" in rules else {})  # `logic`: the rules of a checkpoint
    if saved is None:
        return {}
    by_state = {name: {*schemas} for name, schemas in saved.items()}
    for kind in plan.kinds.values():
        by_state.setdefault(kind.title, set()).add(kind.header.hex())
    for timer in plan.timers.values():
        by_state.setdefault(TIMER_STATE + timer.kind.name, set()).add(timer.kind.header.hex())
    for topic in plan.codes:
        by_state.setdefault(UNIQUE_STATE + topic, set()).add(header_of(SEEN_RECORD).hex())
    return {STATE_SCHEMAS: {name: sorted(schemas) for name, schemas in sorted(by_state.items())}}


def _timers(state_schemas: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of all timers that the state may have."""
    return tuple(name.removeprefix(TIMER_STATE) for name in state_schemas if name.startswith(TIMER_STATE))


def _readable(plan: Plan) -> dict[str, list[str]]:
    readable = {kind.title: sorted(h.hex() for forms in kind.versions for h in forms) for kind in plan.every_kind()}
    ids = [kind for kind in plan.by_prefix.values() if isinstance(kind, SeenKind)]
    return readable | {UNIQUE_STATE + kind.name: [kind.header.hex()] for kind in ids}


def _tables(plan: Plan) -> dict[str, Any]:
    """Returns what decides since when rows of tables hold, as a rule; nothing if there are none."""
    tables = {
        t.topic: {"history_ms": t.history_ms, "ready": t.ready, "valid_from": t.valid_from or ""}
        for t in plan.service.tables.values()
    }
    return {TABLES: tables} if tables else {}


def _counters(service: Service[Any]) -> list[str]:
    """The platform's counters that are meaningful for this service."""
    late = ["late"] if any(i.ordered and not i.timed for i in service.inputs) else []
    looking_up = [LOOKING_UP] if service.lookups else []
    return [*looking_up, *late, *(["duplicates"] if any(i.unique for i in service.inputs) else [])]


def _largest(service: Service[Any], max_record_bytes: int) -> dict[str, int]:
    """The size of the largest record by topic, if the service declares it (`Service.holding`)."""
    topics = [*[output.topic for output in service.outputs], f"{service.name}-state"]
    return dict.fromkeys(topics, service.holds * max_record_bytes) if service.holds else {}


def functions_of(service: Service[Any]) -> list[FunctionType | MethodType]:
    """The functions and methods that decide the results of a batch. Compiled ones are left out: they have no readable
    code. So are the objects with which the platform keeps the rows of tables."""
    handlers = [handler for _, handler in service.handlers]
    functions: list[Any] = [h.function for h in handlers if not isinstance(h.function, (KeepRow, TakeEffect))]
    functions += [fn for i in service.inputs for fn in (i.key, i.time, i.decode, i.fallback)]
    functions += [output.key for output in service.outputs]
    for table in service.tables.values():
        functions += [table.on_change, *[index.by for index in table.indices]]
    functions += [s.ids for handler in handlers for s in handler.states if isinstance(s, MapAt)]
    return [called for called in map(function_in, functions) if called is not None]


def code_of(service: Service[Any]) -> str:
    """A digest of the functions that decide the results of a batch."""
    texts = dict.fromkeys([code_text(function) for function in functions_of(service)])  # several inputs may share one
    return hashlib.sha256("\n\n".join(texts).encode()).hexdigest()[:16]


def digests_of(service: Service[Any]) -> dict[str, str]:
    """The digest of each of these functions, by its name in the code."""
    texts: dict[str, dict[str, None]] = {}
    for function in functions_of(service):
        name = function.__qualname__.replace("<locals>.", "")
        texts.setdefault(name, {})[code_text(function)] = None
    return {name: hashlib.sha256("".join(its).encode()).hexdigest()[:16] for name, its in sorted(texts.items())}


def _json_fields(plan: Plan) -> dict[str, list[str]]:
    """The paths of all JSON fields of inputs and state, as a rule; nothing if there are none."""
    codecs = [*(planned.codec for inputs in plan.inputs.values() for planned in inputs.values())]
    codecs += [kind.codec for kind in plan.kinds.values()]
    json_paths = {
        f"{codec.record.short}.{path}" for codec in codecs for path in paths(codec.record, lambda f: is_json(f.shape))
    }
    return {JSON_FIELDS: sorted(json_paths)} if json_paths else {}


def with_limits(inputs: list[InputTopic], rules: Mapping[str, Any]) -> tuple[list[InputTopic], dict[str, Any]]:
    """The inputs with their limits, and the limits as rules. A checkpoint's limits replace the declared ones."""
    if "logic" in rules:  # the rules of a checkpoint
        bounds, futures = rules.get("bounds", {}), rules.get("max_futures", {})
        inputs = [t._replace(bound_ms=bounds.get(t.name), max_future_ms=futures.get(t.name)) for t in inputs]
    limits: dict[str, Any] = {
        "bounds": {t.name: t.bound_ms for t in inputs if t.bound_ms is not None},
        "max_futures": {t.name: t.max_future_ms for t in inputs if t.max_future_ms is not None},
        TIMED: [t.name for t in inputs if t.timed],
        ARRIVALS: [t.name for t in inputs if t.arrival],
    }
    return inputs, {name: by_topic for name, by_topic in limits.items() if by_topic}


def check_runs(service: Service[Any]) -> None:
    """Raises ServiceError for declarations that are valid but cannot run: names that the platform uses itself."""
    clash = sorted({f.name for f in _fields(service)} & {*PLATFORM_RULES, *RESERVED})
    if clash:
        service.fail(f"rules: {clash[0]} is a rule that every service has.", "rename it.")
    topics = [o.topic for o in service.outputs]
    platforms = [f"{service.name}-{own}" for own in ("state", "commits", "dead-letters", "clock")]
    for reserved in platforms:
        if reserved in topics or any(i.topic == reserved for i in service.inputs):
            service.fail(f"{reserved} is a topic that the platform writes for this service.", "rename the topic.")
    for pattern in [i.topic for i in service.inputs if is_pattern(i.topic)]:
        own = next((topic for topic in [*topics, *platforms] if matches(pattern, topic)), None)
        if own is not None:
            service.fail(
                f"input {pattern!r}: the pattern matches {own}, which the service writes.", "narrow the pattern."
            )


def schemas_by_topic(reference: str, codes: tuple[tuple[str, int], ...]) -> dict[str, list[dict[str, Any]]]:
    """The schemas of the records in each topic. Heartbeats, which may be in any input, are left out."""
    plan = plan_of(reference, codes)
    records: dict[str, dict[str, Record]] = {}
    for planned in [i for inputs in plan.inputs.values() for i in inputs.values()]:
        record = planned.codec.record if planned.table is None else plan.table_of[planned.code].codec.record
        records.setdefault(planned.topic, {})[record.name] = record
    for output in plan.outputs.values():
        records.setdefault(output.output.topic, {})[output.codec.record.name] = output.codec.record
    return {topic: [schema_of(record) for record in its.values()] for topic, its in records.items()}


def topic_records(plan: Plan) -> dict[str, Record]:
    """The records in the service's topics, by full name."""
    codecs = [*(i.codec for inputs in plan.inputs.values() for i in inputs.values())]
    codecs += [o.codec for o in plan.outputs.values()]
    codecs += [table.codec for table in plan.tables.values()]
    return {codec.record.name: codec.record for codec in [*codecs, plan.heartbeat]}


def state_records(plan: Plan) -> dict[str, Record]:
    """The service's state records, by full name."""
    return {kind.codec.record.name: kind.codec.record for kind in plan.kinds.values()}


def check_formats(reference: str, formats: Mapping[str, str]) -> None:
    """Raises ServiceError for a topic whose records cannot be told apart in the run's format. `formats`: by topic."""
    for topic in [topic for topic, name in formats.items() if name == JSON]:
        check_json_topic(plan_of(reference), topic)


def known_schemas(reference: str) -> list[str]:
    """Fingerprints of all released versions of the records that the service reads."""
    plan = plan_of(reference)
    known = {header[len(MAGIC) :].hex() for inputs in plan.inputs.values() for header in inputs}
    known.add(plan.heartbeat.header[len(MAGIC) :].hex())
    released = folder_of(reference) / "released.json"
    if released.exists():
        for entry in json.loads(released.read_bytes()).values():
            versions = {version["fingerprint"] for version in entry["versions"].values()}
            known |= versions if versions & known else set()
    return sorted(known)


def _fields(service: Service[Any]) -> tuple[Any, ...]:
    return () if service.rules is None else fields(service.rules)


def _service_rules(reference: str, rules: Mapping[str, Any]) -> dict[str, Any]:
    """The rules that the service declares itself."""
    return {f.name: rules[f.name] for f in _fields(service_at(reference)) if f.name in rules}


def _codes(rules: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(rules.get("topics", {}).items()))


def asked_again(reference: str, codes: tuple[tuple[str, int], ...], key: bytes, entry: bytes) -> Output | None:
    """The request of an open lookup's entry. None: the entry belongs to no lookup."""
    place = layout.place_of(key)
    plan = plan_of(reference, codes)
    if place is None or place.kind != layout.ENTRY or place.name not in plan.service.lookups:
        return None
    lookup = plan.service.lookups[place.name]
    record = decode_entry(plan.kinds[place.name], entry, place.owner, place.id).value
    output = plan.outputs[lookup.requests]
    return output.stream, place.owner, output.codec.encode(record.request), []
