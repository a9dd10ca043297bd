"""Reads the configuration file. Each mistake is one line with its place.

application = "shop"
bootstrap-servers = "broker:9092"
dsn-file = "/run/secrets/dsn"

[rows.orders]
topic = "orders"
key = "orderId"
table = ["public", "orders"]
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

from moneystate.apply.config import (
    HandlerTarget,
    Mode,
    Nul,
    RowsTarget,
    Settings,
    Start,
    StateTarget,
    Target,
    TopicSource,
)
from moneystate.errors import ConfigError
from moneystate.kafka.settings import kafka_settings

Choice = TypeVar("Choice", bound=StrEnum)

FORMATS: Final = ("json", "avro", "confluent", "debezium")
WRITTEN_FORMATS: Final = ("json", "avro", "confluent")
KINDS: Final = ("rows", "handler", "state")
LONGEST_NAME: Final = 63  # bytes; PostgreSQL cuts off the rest of a name without an error
NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
REFERENCE: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def read_settings(path: Path) -> Settings:
    """Raises ConfigError."""
    where = f"--config {path}"
    try:
        content = tomllib.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as e:
        raise ConfigError(f"{where}: expected a TOML file, found {e}.", "check the path and the file.") from None
    table = _Table(where, content)
    targets = _targets(table, where)
    kafka = table.texts("kafka-config")
    kafka_file = table.text("kafka-config-file", "")
    settings = Settings(
        application=_name(table, "application"),
        targets=targets,
        bootstrap_servers=table.text("bootstrap-servers"),
        topic_prefix=table.text("topic-prefix", ""),
        kafka=kafka_settings(Path(kafka_file) if kafka_file else None, kafka),
        schema_registry=table.text("schema-registry", ""),
        dsn_file=table.text("dsn-file", ""),
        dsn_env=table.text("dsn-env", ""),
        schema=_identifier(where, "schema", table.text("schema", "public")),
        outbox_limit=table.number("outbox-limit", Settings.outbox_limit),
    )
    if bool(settings.dsn_file) == bool(settings.dsn_env):
        raise ConfigError(
            f"{where}: expected one of dsn-file and dsn-env, found {'both' if settings.dsn_file else 'none'}.",
            "name the file or the environment variable with the connection string.",
        )
    table.end()
    return settings


def _targets(root: _Table, where: str) -> tuple[Target, ...]:
    targets: list[Target] = []
    for kind in KINDS:
        for name, content in root.tables(kind).items():
            place = f"{where}: [{kind}.{name}]"
            if not NAME.fullmatch(name):
                raise ConfigError(
                    f"{place}: expected a name of letters, digits, '.', '_' and '-'.", "rename the target."
                )
            if any(target.name == name for target in targets):
                raise ConfigError(f"{place}: expected different names, found two targets of this name.", "rename one.")
            table = _Table(place, content)
            targets.append(_READ[kind](name, table))
            table.end()
    if not targets:
        raise ConfigError(
            f"{where}: expected a target, found none.", "add a table [rows.NAME], [handler.NAME] or [state.NAME]."
        )
    return tuple(targets)


def _rows(name: str, table: _Table) -> RowsTarget:
    mode = table.choice("mode", Mode, Mode.upsert)
    target = RowsTarget(
        name=name,
        source=_source(table, FORMATS),
        table=_table_name(table),
        key=table.one_or_more("key", optional=mode is Mode.append),
        columns={_identifier(table.where, "columns", c): path for c, path in table.texts("columns").items()},
        mode=mode,
        nul=table.choice("nul", Nul, Nul.reject),
    )
    missing = [path for path in target.key if target.columns and path not in target.columns.values()]
    if missing:
        raise ConfigError(
            f"{table.where} columns: expected a column for each part of the key, found none for {missing[0]}.",
            "add it to columns.",
        )
    return target


def _handler(name: str, table: _Table) -> HandlerTarget:
    return HandlerTarget(
        name=name,
        source=_source(table, FORMATS),
        function=_reference(table, "handler"),
        notifications=table.text("notifications", ""),
        notifications_format=table.one_of("notifications-format", WRITTEN_FORMATS, "json"),
        batch=table.flag("batch"),
    )


def _state(name: str, table: _Table) -> StateTarget:
    return StateTarget(
        name=name,
        service=_reference(table, "service"),
        schema=_identifier(table.where, "schema", table.text("schema", "public")),
        personal=table.flag("personal"),
        nul=table.choice("nul", Nul, Nul.reject),
    )


_READ: Final[Mapping[str, Any]] = {"rows": _rows, "handler": _handler, "state": _state}


def _source(table: _Table, formats: tuple[str, ...]) -> TopicSource:
    source = TopicSource(
        topic=table.text("topic"),
        format=table.one_of("format", formats, "json"),
        type=table.text("type", ""),
        service=_reference(table, "service") if table.has("service") else "",
        schemas=table.text("schemas", ""),
        start=table.choice("start", Start, Start.earliest),
    )
    if source.service and source.schemas:
        raise ConfigError(f"{table.where}: expected one of service and schemas, found both.", "remove one.")
    return source


def _table_name(table: _Table) -> tuple[str, str]:
    names = table.one_or_more("table")
    if len(names) != 2:
        raise ConfigError(
            f'{table.where} table: expected ["SCHEMA", "NAME"], found {len(names)} parts.',
            "name the schema and the table.",
        )
    return _identifier(table.where, "table", names[0]), _identifier(table.where, "table", names[1])


def _identifier(where: str, key: str, name: str) -> str:
    size = len(name.encode())
    if not 0 < size <= LONGEST_NAME or "\x00" in name:
        raise ConfigError(
            f"{where} {key}: expected a name of 1 to {LONGEST_NAME} bytes, found {size}.",
            "choose a shorter one; PostgreSQL would cut it off.",
        )
    return name


def _name(table: _Table, key: str) -> str:
    name = table.text(key)
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"{table.where} {key}: expected letters, digits, '.', '_' and '-', found {name!r}.", "choose another name."
        )
    return name


def _reference(table: _Table, key: str) -> str:
    text = table.text(key)
    if not REFERENCE.fullmatch(text):
        raise ConfigError(
            f"{table.where} {key}: expected MODULE:NAME, found {text!r}.", "name a module and what is in it."
        )
    return text


class _Table:
    """A table of the file. Keys may be written with - or _. Each method raises ConfigError."""

    def __init__(self, where: str, content: Any) -> None:
        self.where = where
        if not isinstance(content, dict):
            raise ConfigError(f"{where}: expected a table, found a value.", "write its settings into a table.")
        self._content = {key.replace("_", "-"): value for key, value in content.items()}
        self._read: set[str] = set()

    def has(self, key: str) -> bool:
        return key in self._content

    def text(self, key: str, default: str | None = None) -> str:
        value = self._value(key, default)
        if not isinstance(value, str) or (not value and default is None):
            self._refuse(key, "a text", value)
        return str(value)

    def flag(self, key: str) -> bool:
        value = self._value(key, False)
        if not isinstance(value, bool):
            self._refuse(key, "true or false", value)
        return bool(value)

    def number(self, key: str, default: int) -> int:
        value = self._value(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 63:
            self._refuse(key, "a whole number above 0", value)
        return int(value)

    def choice(self, key: str, values: type[Choice], default: Choice) -> Choice:
        return values(self.one_of(key, tuple(values), default))

    def one_of(self, key: str, values: tuple[str, ...], default: str) -> str:
        value = self._value(key, default)
        if value not in values:
            self._refuse(key, f"one of {', '.join(values)}", value)
        return str(value)

    def one_or_more(self, key: str, optional: bool = False) -> tuple[str, ...]:
        value = self._value(key, [] if optional else None)
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(one, str) and one for one in values):
            self._refuse(key, "a text or a list of texts", value)
        if not values and not optional:
            self._refuse(key, "a text or a list of texts", value)
        return tuple(values)

    def texts(self, key: str) -> dict[str, str]:
        value = self._value(key, {})
        if not isinstance(value, dict) or not all(isinstance(text, str) and text for text in value.values()):
            self._refuse(key, "a table of texts", value)
        return dict(value)

    def tables(self, key: str) -> dict[str, Any]:
        value = self._value(key, {})
        if not isinstance(value, dict):
            self._refuse(key, "a table for each target", value)
        return dict(value)

    def end(self) -> None:
        """Refuses keys that nobody has read."""
        unknown = sorted(set(self._content) - self._read)
        if unknown:
            raise ConfigError(
                f"{self.where} {unknown[0]}: expected a known setting, found none of that name.",
                f"use one of {', '.join(sorted(self._read))}.",
            )

    def _value(self, key: str, default: Any) -> Any:
        self._read.add(key)
        if key in self._content:
            return self._content[key]
        if default is None:
            raise ConfigError(f"{self.where} {key}: expected a value, found none.", f"add {key}.")
        return default

    def _refuse(self, key: str, expected: str, value: object) -> None:
        shown = repr(value) if isinstance(value, str | int) and not isinstance(value, bool) else type(value).__name__
        raise ConfigError(f"{self.where} {key}: expected {expected}, found {shown[:100]}.", "correct it.")
