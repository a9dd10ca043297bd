"""A plain service as a job for the engine: what fills the platform's port to a service (`moneystate.ports.service`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from moneystate.api.decoder import ServiceDecoder
from moneystate.api.plan import Plan
from moneystate.api.runtime import ServiceProcessor
from moneystate.api.schema import schema_of
from moneystate.api.service import Service
from moneystate.api.state_model import ServiceState
from moneystate.engine.avro import MAGIC
from moneystate.ports.service import JobSpec, ServiceSpec, Stream

LOGIC_VERSION: Final = 1  # of the runtime: raised when the same service and logs would give other records than before
FAIL, DEAD_LETTER = "fail", "dead-letter"
OURS: Final[Mapping[str, Any]] = {
    "bound_ms": 20_000,
    "max_future_ms": 600_000,
    "max_record_bytes": 128 * 1024,
    "on_error": FAIL,
}
NOT_RULES: Final = ("known_schemas", "logic", "topics")


@dataclass(frozen=True)
class Parts:
    """What Spark's processes make the service from. `service`: MODULE:NAME; `rules`: of the service, with its time to
    live and the like; `codes`: the numbers that stand for topics in the state."""

    service: str
    rules: tuple[tuple[str, Any], ...]
    codes: tuple[tuple[str, int], ...]
    dead_letter_errors: bool = False

    def plan(self) -> Plan:
        return plan_of(self.service, self.rules, self.codes)

    def processor(self) -> ServiceProcessor:
        return ServiceProcessor(self.plan(), self.dead_letter_errors)


def decoder(text: str) -> ServiceDecoder:
    """By what `decoder_path` wrote."""
    service, codes = json.loads(text)
    return ServiceDecoder(plan_of(service, (), tuple(sorted(codes.items()))))


def decoder_path(service: str, codes: Mapping[str, int]) -> str:
    return f"{__name__}:{decoder.__name__} {json.dumps([service, dict(codes)])}"


@lru_cache(maxsize=16)
def plan_of(path: str, rules: tuple[tuple[str, Any], ...] = (), codes: tuple[tuple[str, int], ...] = ()) -> Plan:
    """The service at MODULE:NAME, made once in each process; `rules`: in place of those that it is declared with."""
    service = service_at(path)
    return Plan(service, replace(service.rules, **dict(rules)) if rules else None, dict(codes))


def service_at(path: str) -> Service[Any]:
    module, _, name = path.partition(":")
    loaded: Service[Any] = getattr(import_module(module), name)
    return loaded


def plain_service(path: str, earlier: Mapping[str, Any] | None = None) -> ServiceSpec:
    """The service at MODULE:NAME. `earlier`: rules of an earlier run, which say what stands for its topics in the
    state."""
    plan = plan_of(path, (), _codes(earlier or {}))
    service = plan.service
    formats = {declared.topic: declared.format for declared in service.inputs}
    formats |= {declared.topic: declared.format for declared in service.outputs}
    return ServiceSpec(
        name=service.name,
        job=partial(plain_job, path),
        state=ServiceState(path, _rules(service, earlier or {}), plan.codes),
        formatted=sorted(formats),
        formats=formats,
    )


def plain_job(path: str, rules: Mapping[str, Any]) -> JobSpec:
    """By rules as the command line or a checkpoint has them; what is left out of them has its default."""
    service = service_at(path)
    own = {f.name: rules.get(f.name, getattr(service.rules, f.name)) for f in _fields(service)}
    ours = {name: rules.get(name, default) for name, default in OURS.items()}
    plan = plan_of(path, tuple(sorted(own.items())), _codes(rules))
    codes = tuple(sorted(plan.codes.items()))
    parts = Parts(path, tuple(sorted(own.items())), codes, ours["on_error"] == DEAD_LETTER)
    streams = [output.topic for output in service.outputs]
    return JobSpec(
        name=service.name,
        inputs=plan.input_topics(),
        decoder=decoder_path(path, plan.codes),
        make=parts.processor,
        streams=[*streams, f"{service.name}-dead-letters"],
        dead_letter_stream=plan.dead_letter_stream,
        changelog=f"{service.name}-state",
        commits=f"{service.name}-commits",
        rules={**own, **ours, "known_schemas": known_schemas(path), "logic": LOGIC_VERSION, "topics": dict(codes)},
        bound_ms=ours["bound_ms"],
        max_future_ms=ours["max_future_ms"],
        max_record_bytes=ours["max_record_bytes"],
        asked_again=_nothing_asked,
        state=ServiceState(path, plan.rules, plan.codes),
        reader_rules=sorted(own),
        schemas=path,
        created={o.topic: Stream(o.partitions, o.compacted) for o in service.outputs},
    )


def check_runs(service: Service[Any]) -> None:
    """Raises ServiceError for what can be declared and not run yet."""
    clash = sorted({f.name for f in _fields(service)} & {*OURS, *NOT_RULES})
    if clash:
        service.fail(f"rules: {clash[0]} is a rule of each service.", "rename it.")
    for declared in service.inputs:
        if declared.bound_ms is not None:
            service.fail(f"{declared!r}: bound_ms is not supported by jobs yet.", "leave it out, and give --bound.")
        if declared.format == "debezium":
            service.fail(f"{declared!r}: the format debezium is not supported by jobs yet.", "use json.")
    for output in service.outputs:
        if output.timed:
            service.fail(f"{output!r}: timed is not supported by jobs yet.", "leave it out.")
    topics = [o.topic for o in service.outputs]
    for made in (f"{service.name}-state", f"{service.name}-commits", f"{service.name}-dead-letters"):
        if made in topics or any(i.topic == made for i in service.inputs):
            service.fail(f"{made} is a topic of the platform's for this service.", "rename the topic.")


def folder_of(path: str) -> Path:
    """Of the schemas of a service: beside its module."""
    file = import_module(path.partition(":")[0]).__file__
    assert file is not None
    return Path(file).resolve().parent / "avro" / service_at(path).name


def topic_schemas(plan: Plan) -> dict[str, dict[str, Any]]:
    """The schemas of what stands in the service's topics, by name of the type."""
    codecs = [*(i.codec for inputs in plan.inputs.values() for i in inputs.values())]
    codecs += [o.codec for o in plan.outputs.values()]
    schemas = {codec.record.name: schema_of(codec.record) for codec in [*codecs, plan.heartbeat]}
    return {schema["name"]: schema for schema in schemas.values()}


def state_schemas(plan: Plan) -> dict[str, dict[str, Any]]:
    """The schemas of the service's own records of state, by name of the type."""
    return {s["name"]: s for s in [schema_of(kind.codec.record) for kind in plan.kinds.values()]}


def known_schemas(path: str) -> list[str]:
    """Fingerprints of all released versions of what the service reads."""
    plan = plan_of(path)
    known = {header[len(MAGIC) :].hex() for inputs in plan.inputs.values() for header in inputs}
    known.add(plan.heartbeat.header[len(MAGIC) :].hex())
    released = folder_of(path) / "released.json"
    if released.exists():
        for entry in json.loads(released.read_text()).values():
            its = {version["fingerprint"] for version in entry["versions"].values()}
            known |= its if its & known else set()
    return sorted(known)


def _fields(service: Service[Any]) -> tuple[Any, ...]:
    return () if service.rules is None else fields(service.rules)


def _rules(service: Service[Any], earlier: Mapping[str, Any]) -> Any:
    own = {f.name: earlier[f.name] for f in _fields(service) if f.name in earlier}
    return replace(service.rules, **own) if own else service.rules


def _codes(rules: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(rules.get("topics", {}).items()))


def _nothing_asked(key: bytes, value: bytes) -> None:
    """Of `JobSpec.asked_again`: a plain service's requests are outputs like others."""
