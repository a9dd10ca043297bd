"""`moneystate ask`: queries the query server of a service.

Exit codes: 0 answered, 1 not found (at that version), 2 wrong use or not allowed, 3 the server cannot be reached or has
not caught up.
"""

from __future__ import annotations

import json
import re
import shlex
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from moneystate.cli import ask_tables as tables
from moneystate.cli import services
from moneystate.cli.ask_pages import list_pages, show_answer
from moneystate.cli.connection import connected
from moneystate.cli.known_services import KNOWN
from moneystate.cli.option import NUMBER, TIME, VERSION, Flags, Panel, flag
from moneystate.cli.options import AtTime, AtVersion, Json, Limit
from moneystate.cli.versions import parse_at
from moneystate.errors import ConfigError, MoneystateError
from moneystate.runtime.plans import plan_of
from moneystate.runtime.reference import service_at
from moneystate.serving.arguments import Mistyped, index_value, typed
from moneystate.serving.client import Client
from moneystate.state.v1 import header_pb2, status_pb2
from moneystate.state.v1 import state_pb2 as s

NEGATIVE = re.compile(r"-[0-9.]+([eE][+-]?[0-9]+)?")
VERBS = ("get", "list", "entries", "watch", "explain", "diff", "forget", "schema", "status", "call")


@dataclass(frozen=True)
class QuestionFlags(Flags):
    at_version: AtVersion = ""
    at_time: AtTime = ""
    since: str = flag("", "Changes since this version; by default, watch begins now.", Panel.question, VERSION)
    since_time: str = flag("", "For diff: changes since this event time, ISO-8601 with its zone.", Panel.question, TIME)
    low: str = flag(
        "", "For list INDEX: start at this value; parts of a tuple are separated by commas.", Panel.question, "VALUE"
    )
    high: str = flag("", "For list INDEX: stop before this value.", Panel.question, "VALUE")
    limit: Limit = 100
    count: int = flag(0, "For watch: end after this many changes; 0: never.", Panel.question, NUMBER, least=0)
    json: Json = False


@dataclass(frozen=True)
class Question:
    """A question to a server about a service's state."""

    client: Client
    schema: s.GetSchemaResponse
    words: list[str]  # the arguments after the verb or query
    flags: QuestionFlags
    read_at: header_pb2.At | None
    since: header_pb2.At | None


def complete_service(incomplete: str) -> list[str]:
    return [name for name in KNOWN if name.startswith(incomplete)]


def complete_question(context: typer.Context, incomplete: str) -> list[str]:
    """Verbs, and the queries that the service declares."""
    names = list(VERBS)
    with suppress(MoneystateError):  # only the server knows the name
        names += plan_of(services.load(context.params["service"])).queries
    return [name for name in names if name.startswith(incomplete)]


def complete_word(context: typer.Context, incomplete: str) -> list[str]:
    """Completes the names of states and indices."""
    try:
        plan = plan_of(services.load(context.params["service"]))
    except MoneystateError:
        return []
    names = [*plan.kinds, *(plan.service.indices if context.params.get("question") == "list" else [])]
    return [name for name in names if name.startswith(incomplete)]


def ask(
    client: Client,
    flags: QuestionFlags,
    service: Annotated[str, typer.Argument(
        metavar="SERVICE", help="The service's name, as served, or as `serve --service` takes it.",
        autocompletion=complete_service,
    )],
    question: Annotated[str, typer.Argument(
        metavar="QUERY|VERB", help=f"A query that the service declares, or {', '.join(VERBS)}.",
        autocompletion=complete_question,
    )],
    words: Annotated[list[str] | None, typer.Argument(
        metavar="ARGUMENT", help="Arguments of the query, by place or NAME=VALUE.", autocompletion=complete_word
    )] = None,
) -> None:  # fmt: skip
    """Ask the query server of a service.

    \b
    ask SERVICE QUERY [ARGUMENT...]      a query that the service declares
    ask SERVICE get KEY [STATE [ID]]     values of a key; one; an entry of a map
    ask SERVICE list STATE [PREFIX]      records by key
    ask SERVICE list INDEX [PART...]     records by index, in its order
    ask SERVICE entries MAP KEY [PREFIX] entries of a map
    ask SERVICE explain STATE KEY [ID]   the history of a record, by version
    ask SERVICE diff --since VERSION     what has changed since then
    ask SERVICE watch [KEY]              changes as they become readable
    ask SERVICE forget KEY [REQUEST_ID]  ask the service to forget a key
    ask SERVICE schema                   what the service declares
    ask SERVICE status                   how current and how large it is
    ask SERVICE call QUERY [ARGUMENT...] a query with the name of a verb above
    """
    _check_words([service, question, *(words or [])])
    if question == "status":  # a server that has not caught up answers nothing else
        _status(client, flags.json)
        return
    schema = client.call("State.GetSchema", s.GetSchemaRequest())
    expected = _names_of(service)
    if schema.service not in expected:
        raise ConfigError(
            f"{client.target.address}: expected the service {' or '.join(expected)}, found {schema.service}.",
            "name the service that is served there.",
        )
    read_at = parse_at(flags.at_version, flags.at_time)
    since = parse_at(flags.since, flags.since_time, "--since", "--since-time")
    asked = Question(client, schema, words or [], flags, read_at, since)
    if question in VERBS and question != "call":
        ANSWERS[question](asked)
        return
    if question == "call":
        question, asked = _first(asked, "call QUERY [ARGUMENT...]")
    _query(asked, question)


def _check_words(words: list[str]) -> None:
    """Raises ConfigError for a flag that the command does not have. A negative number is an argument."""
    for word in words:
        if word.startswith("-") and word != "-" and not NEGATIVE.fullmatch(word):
            raise ConfigError(
                f"{word}: expected a flag of the command, found another one.",
                "see moneystate ask --help; write NAME=VALUE for an argument that begins with a hyphen.",
            )


def _names_of(service: str) -> list[str]:
    """The names under which the service may be served."""
    if ":" in service or service in KNOWN:
        return [service_at(reference).name for reference in services.load_all(service)]
    return [service]


def _first(question: Question, usage: str) -> tuple[str, Question]:
    """The first word, and the question without it."""
    if not question.words:
        raise ConfigError(f"ask: expected {usage}, found no argument.", "see moneystate ask --help.")
    return question.words[0], replace(question, words=question.words[1:])


def _words(question: Question, least: int, most: int, usage: str) -> list[str]:
    """The words, padded with empty ones."""
    words = question.words
    if not least <= len(words) <= most:
        raise ConfigError(f"ask: expected {usage}, found {len(words)} arguments.", "see moneystate ask --help.")
    return [*words, *[""] * (most - len(words))]


def _query(question: Question, name: str) -> None:
    query = next((q for q in question.schema.queries if q.name == name), None)
    if query is None:
        known = ", ".join([q.name for q in question.schema.queries] or ["none"])
        raise ConfigError(
            f"ask: expected a query of {question.schema.service}, found {name}.",
            f"use one of {known}, or one of {', '.join(VERBS)}.",
        )
    arguments = _arguments(name, json.loads(query.arguments.avro)["fields"], question.words)
    request = s.CallRequest(query=name, arguments=arguments, at=question.read_at)
    answer = question.client.call("State.Call", request)
    if question.flags.json:
        typer.echo(answer.result.json)
    else:
        tables.result(answer)


def _arguments(query: str, fields: list[dict[str, Any]], words: list[str]) -> str:
    """A JSON object of the arguments' texts. Raises ConfigError."""
    by_name = {field["name"]: field for field in fields}
    given: dict[str, str] = {}  # JSON texts
    places = iter(by_name)
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or name not in by_name:
            name, text = next((place for place in places if place not in given), ""), word
        if not name:
            raise ConfigError(
                f"ask {query}: expected {len(fields)} arguments at most, found {len(words)}.",
                f"give {', '.join(by_name) or 'none'}.",
            )
        given[name] = _typed(f"{query}, {name}", by_name[name]["type"], text)
    missing = [name for name, field in by_name.items() if name not in given and "default" not in field]
    if missing:
        raise ConfigError(f"ask {query}: expected {', '.join(missing)}, found none.", f"give {', '.join(by_name)}.")
    return "{" + ",".join([f"{json.dumps(name)}:{text}" for name, text in given.items()]) + "}"


def _typed(where: str, kind: Any, text: str) -> str:
    """The JSON text of an argument. Raises ConfigError."""
    try:
        return typed(kind, text)
    except Mistyped as e:
        raise ConfigError(f"ask {where}: expected {e.expected}, found {text}.", "write it as in JSON.") from None


def _get(question: Question) -> None:
    key, state, id = _words(question, 1, 3, "get KEY [STATE [ID]]")
    request = s.GetRequest(name=s.RecordName(key=key, state=state, id=id), at=question.read_at)
    answer = question.client.call("State.Get", request)
    if question.flags.json:
        for record in answer.records:
            typer.echo(tables.line(record))
        return
    tables.records(answer.header, answer.records)
    if answer.maps:
        typer.echo(_of_maps(question.schema.service, list(answer.maps), key), err=True)


def _of_maps(service: str, maps: list[str], key: str) -> str:
    command = f"moneystate ask {service} entries {maps[0]} {shlex.quote(key)}"
    return f"There are entries in {', '.join(maps)}. Do: {command}."


def _list(question: Question) -> None:
    if not question.words:
        raise ConfigError(
            "ask: expected list STATE [PREFIX] or list INDEX [PART...], found no argument.",
            f"name one of moneystate ask {question.schema.service} schema.",
        )
    name, *parts = question.words
    request = s.ListRequest(at=question.read_at)
    if name in [index.name for index in question.schema.indices]:
        request.index = name
        if parts:
            request.equals.CopyFrom(_value(parts))
        for limit, text in (("low", question.flags.low), ("high", question.flags.high)):
            if text:
                getattr(request.range, limit).CopyFrom(_value(text.split(",")))
    else:
        request.state = name
        if parts:
            request.keys.prefix = _words(question, 1, 2, "list STATE [PREFIX]")[1]
    _show_pages(question, "State.List", request)


def _value(parts: list[str]) -> s.IndexValue:
    """Raises ConfigError."""
    try:
        return index_value(parts)
    except Mistyped as e:
        raise ConfigError(str(e), "write it in quotes if it is a text.") from None


def _entries(question: Question) -> None:
    name, key, prefix = _words(question, 2, 3, "entries MAP KEY [PREFIX]")
    request = s.ListEntriesRequest(map=name, key=key, prefix=prefix, at=question.read_at)
    _show_pages(question, "State.ListEntries", request)


def _show_pages(question: Question, call: str, request: Any) -> None:
    flags = question.flags
    list_pages(question.client, call, request, "records", flags.limit, flags.json, tables.records, tables.line)


def _watch(question: Question) -> None:
    _words(question, 0, 1, "watch [KEY]")
    key = question.words[0] if question.words else None
    if question.since is not None and not question.since.HasField("version"):
        raise ConfigError("ask watch: expected --since EPOCH/BATCH, found a time.", "name a version.")
    after = None if question.since is None else question.since.version
    answers = question.client.stream("State.Watch", s.WatchRequest(key=key, after=after))
    seen = 0
    for answer in answers:
        if question.flags.json:
            for record in answer.changes:
                typer.echo(tables.line(record))
        else:
            tables.watched(answer.header, answer.changes)
        seen += len(answer.changes)
        if question.flags.count and seen >= question.flags.count:
            answers.cancel()
            return


def _explain(question: Question) -> None:
    state, key, id = _words(question, 2, 3, "explain STATE KEY [ID]")
    request = s.ExplainRequest(name=s.RecordName(key=key, state=state, id=id), at=question.read_at)
    answer = question.client.call("State.Explain", request)
    show_answer(answer, question.flags.json, lambda: tables.explained(answer))


def _diff(question: Question) -> None:
    _words(question, 0, 0, "diff --since VERSION")
    if question.since is None:
        raise ConfigError("ask diff: expected --since or --since-time, found neither.", "add --since EPOCH/BATCH.")
    request = s.DiffRequest(to=question.read_at)
    getattr(request, "from").CopyFrom(question.since)
    limit, json = question.flags.limit, question.flags.json
    list_pages(question.client, "State.Diff", request, "changes", limit, json, tables.changes, tables.change_line)


def _forget(question: Question) -> None:
    key, request_id = _words(question, 1, 2, "forget KEY [REQUEST_ID]")
    answer = question.client.call("State.Forget", s.ForgetRequest(key=key, request_id=request_id))
    show_answer(answer, question.flags.json, lambda: tables.forget(question.schema.service, key, answer))


def _status(client: Client, json: bool) -> None:
    answer = client.call("Status.GetStatus", status_pb2.GetStatusRequest())
    show_answer(answer, json, lambda: tables.status(answer))


def _schema(question: Question) -> None:
    show_answer(question.schema, question.flags.json, lambda: tables.schema(question.schema))


ANSWERS = {
    "get": _get, "list": _list, "entries": _entries, "watch": _watch, "explain": _explain, "diff": _diff,
    "forget": _forget, "schema": _schema,
}  # fmt: skip

command = connected(ask)
