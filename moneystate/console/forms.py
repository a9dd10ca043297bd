"""Forms for the arguments of declared queries, made from the Avro schemas of their types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moneystate.serving.arguments import Mistyped, typed

NULL = "null"


@dataclass(frozen=True)
class Field:
    """An argument. `kind`: of its input in HTML; `choices`: of an enumeration; `hint`: what it expects; `required`:
    it has no default; `default`: as it would be typed."""

    name: str
    kind: str
    choices: tuple[str, ...]
    hint: str
    required: bool
    default: str
    shape: Any  # its Avro type


class Wrong(Exception):
    """Texts that are no arguments: what is wrong, by the argument's name."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__("; ".join(problems.values()))
        self.problems = problems


def fields_of(avro: str) -> list[Field]:
    """Returns the fields of the record of a query's arguments."""
    return [_field(one) for one in json.loads(avro)["fields"]]


def _field(one: Mapping[str, Any]) -> Field:
    shape = one["type"]
    inner = _inner(shape)
    plain = inner if isinstance(inner, str) else inner.get("logicalType") or inner.get("type") or "json"
    choices = tuple(inner.get("symbols", ())) if isinstance(inner, dict) else ()
    if plain == "boolean":
        choices = ("true", "false")
    required = "default" not in one and not _is_optional(shape)
    kind = "choice" if choices else "number" if plain in ("int", "long") else "text"
    return Field(one["name"], kind, choices, HINTS.get(str(plain), "JSON"), required, _default(one), shape)


HINTS = {
    "string": "text",
    "enum": "one of the list",
    "boolean": "true or false",
    "int": "whole number",
    "long": "whole number",
    "float": "number",
    "double": "number",
    "timestamp-millis": "time, such as 2026-01-31T10:00:00Z",
}


def _is_optional(shape: Any) -> bool:
    return isinstance(shape, list) and NULL in shape


def _inner(shape: Any) -> Any:
    """The type of a value that is not null."""
    if not isinstance(shape, list):
        return shape
    others = [one for one in shape if one != NULL]
    return others[0] if len(others) == 1 else {"type": "json"}


def _default(one: Mapping[str, Any]) -> str:
    default = one.get("default")
    if default is None:
        return ""
    return default if isinstance(default, str) else json.dumps(default)


def arguments_of(fields: list[Field], given: Mapping[str, str]) -> str:
    """A JSON object of the arguments that were filled in. Raises Wrong."""
    texts: dict[str, str] = {}
    problems: dict[str, str] = {}
    for field in fields:
        text = given.get(field.name, "")
        if not text and (not field.required or field.kind != "text"):
            if field.required:
                problems[field.name] = f"{field.name}: expected {field.hint}, found nothing."
            continue
        try:
            texts[field.name] = typed(_inner(field.shape), text)
        except Mistyped:
            problems[field.name] = f"{field.name}: expected {field.hint}, found {text}."
    if problems:
        raise Wrong(problems)
    return "{" + ",".join([f"{json.dumps(name)}:{text}" for name, text in texts.items()]) + "}"


def command_of(service: str, query: str, fields: list[Field], given: Mapping[str, str], address: str) -> list[str]:
    """The words of `moneystate ask` with the same arguments."""
    named = [f"{field.name}={given[field.name]}" for field in fields if given.get(field.name)]
    return ["moneystate", "ask", service, query, *named, "--address", address]


def python_of(query: str, arguments: str, address: str) -> str:
    """Writes the same call in Python."""
    return "\n".join([
        "from moneystate.serving.client import Client, Target",
        "from moneystate.state.v1 import state_pb2 as s",
        "",
        f"with Client(Target({address!r}), timeout_s=10.0) as client:",
        f"    answer = client.call(\"State.Call\", s.CallRequest(query={query!r}, arguments={arguments!r}))",
        "    print(answer.result.json)",
    ])  # fmt: skip
