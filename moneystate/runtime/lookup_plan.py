"""A lookup's declaration, checked and compiled: what identifies a request, where it is asked, and how an answer of the
HTTP service becomes a reply. The job, the worker and the tests use the same plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from string import Formatter
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from moneystate.api.lookup import FAILED, FOUND, NOT_FOUND, Lookup
from moneystate.engine.avro import Malformed
from moneystate.errors import ServiceError, StepError
from moneystate.records import json_text
from moneystate.records.codec import Codec
from moneystate.records.json_text import MAX_RECORD_LEVELS, decoded
from moneystate.records.reading import KeyReader, path_of
from moneystate.records.shapes import MILLIS_KIND, Field, Maybe, Plain, Record, Shape, Symbols

OUTCOME, ATTEMPTS, COMPLETED_AT = "outcome", "attempts", "completed_at"
MAX_REPLY_BYTES: Final = 96 * 1024  # smaller than what a job reads by default
_IN_IDS: Final = ("string", "long", MILLIS_KIND)


class Unusable(Exception):
    """An answer from which no reply can be made. `args[0]` says why, without values."""


class Attempt(NamedTuple):
    """Describes how a lookup ended, besides the content of the answer."""

    outcome: str
    attempts: int  # that count
    completed_at_ms: int  # wall clock


class LookupPlan:
    def __init__(self, lookup: Lookup[Any, Any, Any, Any], codec_of: Callable[[type, str], Codec]) -> None:
        """Raises ServiceError."""
        self.lookup = lookup
        self.name = lookup.name
        self.where = f"service {lookup.service!r}: {lookup!r}"
        self.request = codec_of(lookup.requests.record, repr(lookup.requests))
        self.reply = codec_of(lookup.replies.record, repr(lookup.replies))
        self.keys = KeyReader(self.request.record, lookup.requests.key, self.where)
        self.shared = self._shared()
        self.time: Callable[[Any], int] = self._time(lookup.time)
        self.ids = self._ids()
        self.noted = self._noted()
        self.answered = self._answered()
        self._answer = Codec(self._answer_record())
        self._path = self._path_function()

    # Declaration

    def _fail(self, problem: str, do: str) -> ServiceError:
        return ServiceError(f"{self.where}: {problem}", do)

    def _shared(self) -> list[str]:
        """The fields that a reply takes from its request."""
        request, reply = self.request.record, self.reply.record
        shared = [f for f in reply.fields if request.field(f.name) is not None]
        for f in shared:
            other = request.field(f.name)
            assert other is not None
            if f.shape != other.shape:
                raise self._fail(
                    f"{reply.cls.__name__}.{f.name} has another type than {request.cls.__name__}.{f.name}.",
                    "give both the same type: a reply repeats the fields of its request.",
                )
        return [f.name for f in shared]

    def _time(self, name: str) -> Callable[[Any], int]:
        read, shape = path_of(self.request.record, name, self.where, "time")
        if shape != Plain(MILLIS_KIND) or name not in self.shared:
            raise self._fail(
                f"expected time={name!r} to be a field of type ms.Millis in both records.",
                "declare it in the request and in the reply.",
            )
        return read

    def _ids(self) -> list[str]:
        """The shared fields that tell the requests of a key apart."""
        key = self.lookup.requests.key
        parts = key if isinstance(key, tuple) else (key,)
        for part in parts:
            if not isinstance(part, str) or part not in self.shared:
                raise self._fail(f"expected key={part!r} to be a field of both records.", "name such a field as key=.")
        by = self.lookup.by
        fields = [f for f in self.request.record.fields if f.name in self.shared and f.name not in parts]
        for name in by or ():
            if not any(f.name == name and _is_in_ids(f.shape) for f in fields):
                raise self._fail(f"by: {name} is not a text, number or time of both records.", "use other fields.")
        chosen = [f for f in fields if by is None or f.name in (*by, self.lookup.time)]
        return [f.name for f in chosen if _is_in_ids(f.shape)]

    def _noted(self) -> list[str]:
        """The fields of the reply that the worker fills in."""
        reply = self.reply.record
        outcome = reply.field(OUTCOME)
        expected = {FOUND, NOT_FOUND, FAILED}
        if outcome is None or not isinstance(outcome.shape, Symbols) or set(outcome.shape.symbols) != expected:
            raise self._fail(
                f"expected {reply.cls.__name__} to have the field outcome: ms.Outcome.",
                "add it: it says whether the service has found something.",
            )
        return [n for n in (OUTCOME, ATTEMPTS, COMPLETED_AT) if reply.field(n) is not None and n not in self.shared]

    def _answered(self) -> list[Field]:
        """The fields of the reply that the service's answer has."""
        fields = [f for f in self.reply.record.fields if f.name not in [*self.shared, *self.noted]]
        for f in fields:
            if f.default is None and not isinstance(f.shape, Maybe):
                raise self._fail(
                    f"{self.reply.record.cls.__name__}.{f.name} has no value in a reply without an answer.",
                    "declare it as X | None, or give it a default.",
                )
        return fields

    def _answer_record(self) -> Record:
        """The part of an answer that a reply takes. A field without default must be there, and not null."""
        cls = dataclasses.make_dataclass("Answer", [f.name for f in self.answered])
        fields = [
            dataclasses.replace(f, shape=f.shape.inner if f.default is None and isinstance(f.shape, Maybe) else f.shape)
            for f in self.answered
        ]
        return Record(f"{self.reply.record.name}Answer", cls, fields)

    def _path_function(self) -> Callable[[Any], str]:
        url = self.lookup.url
        if callable(url):
            return url
        parts = _parts_of(url)
        if not url.startswith("/") or not any(name for _, name in parts):
            raise self._fail(
                f"expected url={url!r} to be a path with fields of the request in braces.",
                'write it like "/sessions/{id}"; the worker\'s --url has the host.',
            )
        readers = [(text, None if name is None else self._reader(name)) for text, name in parts]

        def path(request: Any) -> str:
            return "".join([text + ("" if read is None else quoted(read(request))) for text, read in readers])

        return path

    def _reader(self, name: str) -> Callable[[Any], Any]:
        read, shape = path_of(self.request.record, name, self.where, "url")
        if not _is_in_ids(shape) or isinstance(shape, Maybe):
            raise self._fail(f"url: {name} is neither a string nor a whole number.", "use another field.")
        return read

    # Requests and replies

    def id_of(self, record: Any) -> str:
        """Identifies a request among those of its key, from the request or its reply."""
        return "[" + ",".join([_in_id(getattr(record, name)) for name in self.ids]) + "]"

    def path(self, request: Any) -> str:
        """Returns where the request is asked: the path of the call, quoted. Raises StepError for what the service's
        function makes of it."""
        path = self._path(request)
        if type(path) is not str or not path.startswith("/"):
            raise StepError(
                f"{self.where}: expected its url= to return a path, found {type(path).__name__}.",
                "return a string that begins with /.",
            )
        return path

    def reply_to(self, request: Any, attempt: Attempt, body: bytes | None = None) -> bytes:
        """The reply in canonical form. `body`: of the answer; None: there is none. Raises Unusable if the answer does
        not have what the reply takes from it."""
        values = self._from(body) if body is not None else {f.name: _empty(f) for f in self.answered}
        noted = {OUTCOME: attempt.outcome, ATTEMPTS: attempt.attempts, COMPLETED_AT: attempt.completed_at_ms}
        values |= {name: noted[name] for name in self.noted}
        values |= {name: getattr(request, name) for name in self.shared}
        cls = self.reply.record.cls
        try:
            record = cls(**values)
            reply = self.reply.encode(record)
        except (ValueError, StepError) as e:
            raise Unusable(f"{cls.__name__} cannot hold the answer ({type(e).__name__})") from None
        if body is not None and self.lookup.accept is not None and not self.lookup.accept(record):
            raise Unusable("the lookup does not accept it")
        if len(reply) > MAX_REPLY_BYTES:
            raise Unusable(f"the reply has more than {MAX_REPLY_BYTES} bytes")
        return reply

    def _from(self, body: bytes) -> dict[str, Any]:
        if not self.answered:
            return {}
        try:
            document = json_text.parse(decoded(body), MAX_RECORD_LEVELS)
        except Malformed:
            raise Unusable("not JSON") from None
        try:
            answer = self._answer.from_json(document)
        except Malformed as e:
            told = str(e).partition(", but ")[0]  # without the value
            raise Unusable(f"JSON that does not fit: {told}") from None
        return {f.name: getattr(answer, f.name) for f in self.answered}


def _parts_of(template: str) -> list[tuple[str, str | None]]:
    """The texts of a template, each with the name behind it. Empty: it is not a template."""
    try:
        parsed = list(Formatter().parse(template))
    except ValueError:
        return []
    if any(spec or convert for _, _, spec, convert in parsed):
        return []
    return [(text, name) for text, name, _, _ in parsed]


def quoted(value: Any) -> str:
    text = quote(str(value), safe="")
    return text.replace(".", "%2E") if not text.strip(".") else text  # else "." and ".." name another resource


def _is_in_ids(shape: Shape) -> bool:
    inner = shape.inner if isinstance(shape, Maybe) else shape
    return isinstance(inner, Symbols) or (isinstance(inner, Plain) and inner.kind in _IN_IDS)


def _in_id(value: Any) -> str:
    return "null" if value is None else json_text.quote(value) if isinstance(value, str) else str(value)


def _empty(f: Field) -> Any:
    return None if f.default is None else f.default()
