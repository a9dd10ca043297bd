"""What joining must put out, from the whole log at once: the text of its rules, one after the other.

Nothing of the service is used but its records. The log is sorted once (docs/model.md section 2); then each id is
followed by itself, record by record. What falls due between two records of an id is done before the later one.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from services.joining.records import Cancelled, Part, PartsRequested

Event = Part | PartsRequested | Cancelled
FOREVER = 1 << 60


@dataclass(frozen=True)
class Rules:
    """As configured; `expected` empty: all services; `late_retention` None: as the retention."""

    services: tuple[str, ...]
    expected: tuple[str, ...] = ()
    wait: int = 60_000
    retention: int = 3_600_000
    late_retention: int | None = None
    emit_partial: bool = True
    tombstones: bool = False
    bound: int = 20_000


class Logged(NamedTuple):
    """A record of the topic `parts`; `event` None: it does not decode."""

    partition: int
    offset: int
    event: Event | None


@dataclass
class Outcome:
    """`joined`: the values of each key in order, None for a tombstone; `letters`: reasons in the order of the log;
    `seen`: how often which rule decided, so that a test can tell whether its workload reaches all of them."""

    joined: dict[str, list[dict[str, Any] | None]] = field(default_factory=dict)
    letters: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)


@dataclass
class Id:
    id: str
    t0: int
    parts: dict[str, Part] = field(default_factory=dict)
    request: PartsRequested | None = None
    waited: bool = False
    shown: dict[str, Any] | None = None
    revision: int = 0
    ended: int | None = None


def run(log: Sequence[Logged], rules: Rules) -> Outcome:
    return Reference(rules).run(log)


class Reference:
    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.expected = rules.expected or rules.services
        self.late_retention = rules.retention if rules.late_retention is None else rules.late_retention
        self.outcome = Outcome()
        self.ids: dict[str, Id] = {}
        self.began: set[str] = set()

    def run(self, log: Sequence[Logged]) -> Outcome:
        letters: list[tuple[tuple[int, int], str]] = []
        for t, place, event in in_order(log, self.rules.bound):
            reason = self._refused(event)
            if reason is None:
                self._take(t, event)
            else:
                letters.append((place, reason))
        for known in list(self.ids.values()):
            self._pass(known, FOREVER)
        reasons = dict(letters)
        self.outcome.letters = [reasons[r.partition, r.offset] for r in log if (r.partition, r.offset) in reasons]
        return self.outcome

    def _refused(self, event: Event) -> str | None:
        if isinstance(event, Part):
            if present(event.body) == present(event.error):
                return "body_or_error"
            return None if event.service in self.rules.services else "unknown_service"
        if isinstance(event, PartsRequested) and any(s not in self.rules.services for s in event.services or []):
            return "unknown_service"
        return None

    def _take(self, t: int, event: Event) -> None:
        known = self.ids.get(event.id)
        if known is not None:
            self._pass(known, t)
            known = self.ids.get(event.id)
        if known is None:
            self.outcome.seen["begun again"] += event.id in self.began
            self.began.add(event.id)
            known = self.ids[event.id] = Id(event.id, t)
        if known.ended is not None:
            self.outcome.counts["late_parts"] += 1
            self.outcome.seen[f"late {type(event).__name__}"] += 1
            if t == known.ended + self.late_retention:
                self.outcome.seen["late in the last moment"] += 1
        elif isinstance(event, Cancelled):
            self._cancel(t, known)
        else:
            if isinstance(event, Part):
                self._part(known, event)
            else:
                self._request(known, event)
            self._show(known)

    def _pass(self, known: Id, until: int) -> None:
        """What falls due before `until`; at one time, events come first."""
        rules = self.rules
        if known.ended is None and not known.waited and known.t0 + rules.wait < until:
            known.waited = True
            self._show(known)
        if known.ended is None and known.t0 + rules.retention < until:
            known.ended = known.t0 + rules.retention
            self.outcome.seen["ended in silence" if known.shown is None else "ended"] += 1
        if known.ended is not None and known.ended + self.late_retention < until:
            if rules.tombstones and known.shown is not None:
                self.outcome.joined[known.id].append(None)
                self.outcome.seen["tombstone"] += 1
            del self.ids[known.id]

    # Rules 1 and 2

    def _part(self, known: Id, part: Part) -> None:
        seen = self.outcome.seen
        before = known.parts.get(part.service)
        if before is None:
            known.parts[part.service] = part
        elif digest_of_part(before) == digest_of_part(part):
            self.outcome.counts["duplicates"] += 1
            seen["duplicate that is newer" if part.produced_at > before.produced_at else "duplicate"] += 1
            if part.produced_at > before.produced_at:
                known.parts[part.service] = part
        elif present(before.body) != present(part.body):
            seen["a body after an error" if present(part.body) else "an error after a body"] += 1
            if present(part.body):
                known.parts[part.service] = part
        else:
            mine, its = (part.produced_at, digest_of_part(part)), (before.produced_at, digest_of_part(before))
            seen["by digest" if mine[0] == its[0] else "newer" if mine > its else "older"] += 1
            if mine > its:
                known.parts[part.service] = part

    def _request(self, known: Id, request: PartsRequested) -> None:
        before = known.request
        if before is None:
            known.request = request
            return
        mine, its = digest_of_request(request), digest_of_request(before)
        if mine == its:
            self.outcome.counts["duplicates"] += 1
            self.outcome.seen["duplicate request"] += 1
        elif request.requested_at == before.requested_at:
            self.outcome.seen["request by digest"] += 1
        if (request.requested_at, mine) > (before.requested_at, its):
            known.request = request

    # Rules 3 and 4

    def _expected(self, known: Id) -> list[str]:
        named = known.request.services if known.request else None
        return [s for s in self.rules.services if s in (named or self.expected)]

    def _show(self, known: Id) -> None:
        missing = [s for s in self._expected(known) if s not in known.parts]
        if not missing:
            self._put(known, "COMPLETE")
        elif self.rules.emit_partial and known.waited:
            self._put(known, "PARTIAL")
        elif known.shown is not None:
            self.outcome.seen["silent after the first"] += 1

    def _cancel(self, t: int, known: Id) -> None:
        self.outcome.seen["cancelled in silence" if known.shown is None else "cancelled"] += 1
        self._put(known, "CANCELLED")
        known.ended = t

    def _put(self, known: Id, status: str) -> None:
        content = self._content(known, status)
        if content == known.shown:
            self.outcome.seen["nothing changed"] += 1
            return
        before = "" if known.shown is None else known.shown["status"]
        self.outcome.seen[f"{before}>{status}"] += 1
        known.shown = content
        known.revision += 1
        self.outcome.joined.setdefault(known.id, []).append({**content, "revision": known.revision})

    def _content(self, known: Id, status: str) -> dict[str, Any]:
        expected = self._expected(known)
        shown = {s: known.parts[s] for s in expected if s in known.parts}
        bodies = {s: part for s, part in shown.items() if present(part.body)}
        merged, conflicts = merge([known.request.body if known.request else None, *[p.body for p in bodies.values()]])
        self.outcome.seen["conflict"] += bool(conflicts)
        self.outcome.seen["part not shown"] += len(shown) < len(known.parts)
        return {
            "type": "Joined",
            "id": known.id,
            "status": status,
            "parts": {s: {"body": plain(p.body), "producedAt": iso(p.produced_at)} for s, p in bodies.items()},
            "errors": {s: plain(p.error) for s, p in shown.items() if present(p.error)},
            "missing": [s for s in expected if s not in known.parts],
            "merged": merged,
            "conflicts": conflicts,
        }


def in_order(log: Iterable[Logged], bound: int) -> list[tuple[int, tuple[int, int], Event]]:
    """Order time, place and event, in the total order."""
    high: dict[int, int] = {}
    ordered = []
    for partition, offset, event in sorted(log, key=lambda r: (r.partition, r.offset)):
        if event is None:
            continue
        time = time_of(event)
        t = max(time, high[partition] - bound) if partition in high else time
        high[partition] = max(high.get(partition, time), time)
        ordered.append((t, (partition, offset), event))
    return sorted(ordered, key=lambda it: it[:2])


def time_of(event: Event) -> int:
    if isinstance(event, Part):
        return event.produced_at
    return event.requested_at if isinstance(event, PartsRequested) else event.cancelled_at


def present(json: Any) -> bool:
    return json is not None and json.text != "null"


def plain(value: Any) -> Any:
    """JSON as Python's objects, with numbers as they are written."""
    return json.loads(value.text, parse_int=Written, parse_float=Written)


class Written(str):
    """A number as it is written: not the text of the same characters."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Written) and str.__eq__(self, other)

    def __hash__(self) -> int:
        return str.__hash__(self)


def as_written(text: bytes) -> dict[str, Any]:
    """A JSON object with numbers as they are written, but for the revision."""
    value: dict[str, Any] = json.loads(text, parse_int=Written, parse_float=Written)
    return {**value, "revision": int(value["revision"])}


def canonical(value: Any) -> str:
    if isinstance(value, Written):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(canonical(name) + ":" + canonical(value[name]) for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def digest(value: dict[str, Any]) -> bytes:
    return hashlib.sha256(canonical(value).encode()).digest()


def digest_of_part(part: Part) -> bytes:
    return digest({"body": plain(part.body)} if present(part.body) else {"error": plain(part.error)})


def digest_of_request(request: PartsRequested) -> bytes:
    value: dict[str, Any] = {}
    if present(request.body):
        value["body"] = plain(request.body)
    if request.services is not None:
        value["services"] = request.services
    return digest(value)


def merge(bodies: Iterable[Any]) -> tuple[dict[str, Any], list[str]]:
    merged: dict[str, Any] = {}
    conflicts = set()
    for body in bodies:
        fields = plain(body) if present(body) else None
        if isinstance(fields, dict):
            for name, value in fields.items():
                if canonical(merged.setdefault(name, value)) != canonical(value):
                    conflicts.add(name)
    return merged, sorted(conflicts)


def iso(time_ms: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
