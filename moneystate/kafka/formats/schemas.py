"""The schemas of records in topics: current ones by name and fingerprint, and all other released versions."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form

from moneystate.engine.avro import HEADER_BYTES, MAGIC
from moneystate.errors import SetupError
from moneystate.kafka.formats.base import Undecodable
from moneystate.kafka.formats.body import Skip, check_body, compile_skip
from moneystate.runtime.folders import avro_root
from moneystate.schemas.tree import RELEASED, read_folder, tree_of

FOLDERS = ("events", "lookups", "enriched")
LOGICAL_KEYS = ("logicalType", "precision", "scale")


@dataclass(frozen=True)
class TypeSchema:
    """The schema of one record type."""

    name: str
    full_name: str
    aliases: tuple[str, ...]
    source: dict[str, Any]  # content of the schema file
    source_text: str  # `source` without white space
    parsed: Any  # as fastavro parses it
    raw: Any  # `parsed` without logical types: times are plain ms, decimals plain bytes, whatever their range
    canonical_form: str
    fingerprint: bytes  # 8 bytes of CRC-64-AVRO, little-endian as in single-object encoding
    skip: Skip  # checks a body of `parsed`
    raw_skip: Skip  # checks a body of `raw`

    @property
    def prefix(self) -> bytes:
        """Returns what stands before the body in canonical form: `C3 01` and the fingerprint."""
        return MAGIC + self.fingerprint


class SchemaSet:
    """Current schemas by full name and fingerprint. It is pickled as its sources, because the compiled
    checks cannot be pickled."""

    def __init__(self, sources: Iterable[dict[str, Any]], others: Iterable[dict[str, Any]] = ()) -> None:
        types = [_type_schema(source) for source in sources]
        self.by_fingerprint = {t.fingerprint: t for t in types}
        # further released versions, as text, by fingerprint
        self.others = {fingerprint_of(source): json.dumps(source) for source in others}
        self._by_full_name = {alias: t for t in types for alias in t.aliases} | {t.full_name: t for t in types}

    @classmethod
    def load(cls, root: Path | None = None) -> SchemaSet:
        """All types below `root`/events, lookups and enriched. Raises SetupError if there are none or one is bad."""
        root = root or avro_root()
        files = read_folder(root)
        tree = tree_of({path: files[path] for path in files if path.partition("/")[0] in (*FOLDERS, RELEASED)})
        if not tree.versions or tree.bad:
            path, why = next(iter(tree.bad.items()), (str(root), "no schemas"))
            raise SetupError(f"{path}: {why}.", "install the package again, or run from a whole checkout.")
        current = {name: tree.current_version(name) for name in tree.versions}
        others = [v.source for name, mine in tree.versions.items() for v in mine.values() if v is not current[name]]
        return cls((version.source for version in current.values()), others)

    def __reduce__(self) -> tuple[type[SchemaSet], tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
        return SchemaSet, (
            [t.source for t in self.by_fingerprint.values()],
            [json.loads(s) for s in self.others.values()],
        )

    def by_name(self) -> dict[str, TypeSchema]:
        """The current schemas by short name, for JSON. Raises SetupError if two share one."""
        by_name = {known.name: known for known in self.by_fingerprint.values()}
        if len(by_name) != len(self.by_fingerprint):
            raise SetupError("Two schemas have the same name.", "name each record type once below avro/.")
        return by_name

    def of_full_name(self, full_name: str) -> TypeSchema | None:
        """The type of that full name, or the one that has it as an alias."""
        return self._by_full_name.get(full_name)

    def open(self, value: bytes | None) -> TypeSchema:
        """The type of a value in canonical form, checked to the last byte. Raises Undecodable. The body begins at
        `moneystate.engine.avro.HEADER_BYTES`. A decimal may have any digits, as Avro itself allows: what was read from
        one topic must go into another."""
        if value is None:
            raise Undecodable("null_value")
        if len(value) < HEADER_BYTES or not value.startswith(MAGIC):
            raise Undecodable("malformed", "no Avro single-object header")
        type_schema = self.by_fingerprint.get(value[len(MAGIC) : HEADER_BYTES])
        if type_schema is None:
            raise Undecodable("unknown_schema", f"fingerprint {value[len(MAGIC) : HEADER_BYTES].hex()}")
        check_body(type_schema.raw_skip, value, HEADER_BYTES)
        return type_schema


def fingerprint_of(source: dict[str, Any]) -> bytes:
    """CRC-64-AVRO as it stands in headers."""
    return bytes.fromhex(fingerprint(to_parsing_canonical_form(parse_schema(source)), "CRC-64-AVRO"))


def strip_logical_types(schema: Any) -> Any:
    """A schema, not yet parsed, with the underlying types alone."""
    if isinstance(schema, list):
        return [strip_logical_types(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    stripped = {key: value for key, value in schema.items() if key not in LOGICAL_KEYS}
    for key in ("type", "items", "values"):
        if key in stripped:
            stripped[key] = strip_logical_types(stripped[key])
    if isinstance(stripped.get("fields"), list):
        stripped["fields"] = strip_logical_types(stripped["fields"])
    return stripped


def _set_bytes_defaults(schema: Any) -> None:
    """Makes the default of a bytes field, in a schema a text, the bytes that it stands for (Avro 1.12, "Complex Types":
    code points 0 to 255). fastavro's reader hands out defaults as they are, and its writer then refuses the text."""
    if isinstance(schema, list):
        for branch in schema:
            _set_bytes_defaults(branch)
    elif isinstance(schema, dict):
        for key in ("type", "items", "values", "fields"):
            _set_bytes_defaults(schema.get(key))
        if isinstance(schema.get("default"), str) and _is_bytes(schema.get("type")):
            schema["default"] = schema["default"].encode("latin-1")


def _is_bytes(schema: Any) -> bool:
    if isinstance(schema, list):
        return _is_bytes(schema[0])  # a default belongs to the first branch
    return _is_bytes(schema["type"]) if isinstance(schema, dict) else bool(schema == "bytes")


def _type_schema(source: dict[str, Any]) -> TypeSchema:
    parsed: Any = parse_schema(source)
    raw: Any = parse_schema(strip_logical_types(source))
    for schema in (raw, *raw["__named_schemas"].values()):
        _set_bytes_defaults(schema)
    canonical_form = to_parsing_canonical_form(parsed)
    full_name: str = parsed["name"]
    namespace, _, name = full_name.rpartition(".")
    return TypeSchema(
        name=name,
        full_name=full_name,
        aliases=tuple(alias if "." in alias else f"{namespace}.{alias}" for alias in source.get("aliases", ())),
        source=source,
        source_text=json.dumps(source, separators=(",", ":")),
        parsed=parsed,
        raw=raw,
        canonical_form=canonical_form,
        fingerprint=bytes.fromhex(fingerprint(canonical_form, "CRC-64-AVRO")),
        skip=compile_skip(parsed),
        raw_skip=compile_skip(raw),
    )
