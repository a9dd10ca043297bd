"""Archive files: records of one partition in their order, as Avro object container, Parquet or JSON lines.

A record has the fields of Spark's Kafka source: offset, timestamp (ms), timestampType (-1 none, 0 create, 1 log append
time, as Kafka numbers them), key, headers ([{key, value}]), value. In JSON lines bytes are Base64, and an object in
place of bytes means its JSON text, exactly as the file has it. If `offset` is left out, records are ordered by their
place in the file.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from moneystate.engine.avro import Malformed
from moneystate.engine.items import Header
from moneystate.errors import ArchiveError
from moneystate.records.avro_types import parse
from moneystate.records.empty_items import has_empty_items
from moneystate.records.json_members import children

AVRO, PARQUET, JSON_LINES = "avro", "parquet", "jsonl"
FORMATS = (AVRO, PARQUET, JSON_LINES)
NO_OFFSET: Final = -1
NO_TIMESTAMP: Final = -1
NO_TIMESTAMP_TYPE: Final = -1
ROWS_PER_BATCH = 8192
DEFLATE_LEVEL = 1  # of zlib: files are a third of the size, in a quarter of the time of zlib's default level

HEADER = {
    "type": "record",
    "name": "moneystate.archive.Header",
    "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": ["null", "bytes"]}],
}
AVRO_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "moneystate.archive.Record",
        "fields": [
            {"name": "offset", "type": "long"},
            {"name": "timestamp", "type": "long"},
            {"name": "timestampType", "type": "int"},
            {"name": "key", "type": ["null", "bytes"]},
            {"name": "headers", "type": {"type": "array", "items": HEADER}},
            {"name": "value", "type": ["null", "bytes"]},
        ],
    }
)
PARQUET_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
PARQUET_SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("timestampType", pa.int32()),
        ("key", pa.binary()),
        ("headers", pa.list_(PARQUET_HEADER)),
        ("value", pa.binary()),
    ]
)
FIELDS = tuple(PARQUET_SCHEMA.names)
_NUMBERS: tuple[str, ...] = ("offset", "timestamp", "timestampType")  # the other fields are bytes, or have them


class ArchivedRecord(NamedTuple):
    """A record as the archive has it."""

    offset: int  # NO_OFFSET: not recorded
    timestamp_ms: int  # NO_TIMESTAMP: the record has none
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]
    has_headers: bool = True  # False: headers were not recorded


def format_of(path: Path) -> str | None:
    """The format by the suffix of the name; None: not an archive file."""
    suffix = path.suffix.removeprefix(".")
    return suffix if suffix in FORMATS else None


# Reading


def read_file(path: Path) -> Iterator[ArchivedRecord]:
    """The records of a file, in order. Raises ArchiveError if it cannot be read to its end."""
    records = READERS[path.suffix.removeprefix(".")](path)
    try:
        for fields in records:
            yield _archived_record(fields)
    except ArchiveError:
        raise
    except Exception as e:  # the libraries raise many kinds of errors for damaged files
        reason = " ".join(str(e).split()) or type(e).__name__
        raise ArchiveError(f"{path}: expected a whole archive file, but {reason}.", "restore the file.") from None


def _archived_record(fields: dict[str, Any]) -> ArchivedRecord:
    offset = fields.get("offset")
    timestamp = fields.get("timestamp")
    kind = fields.get("timestampType")
    if timestamp is None or kind == NO_TIMESTAMP_TYPE:
        timestamp = kind = NO_TIMESTAMP
    return ArchivedRecord(
        NO_OFFSET if offset is None else int(offset),
        int(timestamp),
        0 if kind is None else int(kind),
        _bytes(fields.get("key")),
        _bytes(fields.get("value")),
        [(header["key"], _bytes(header["value"])) for header in fields.get("headers") or ()],
        "headers" in fields,
    )


def _bytes(content: Any) -> bytes | None:
    if content is None or type(content) is bytes:
        return content
    if isinstance(content, str):
        return content.encode()
    raise TypeError(f"expected bytes, found {type(content).__name__}")


def _read_avro(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as f:
        reader = fastavro.reader(f)
        if has_empty_items(parse(reader.writer_schema, foreign=True)):
            raise TypeError("its schema has an array whose items take no bytes")
        for record in reader:
            if not isinstance(record, dict):
                raise TypeError("its records are no Avro records")
            yield record


def _read_parquet(path: Path) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(path) as f:
        columns = [name for name in FIELDS if name in f.schema_arrow.names]
        for batch in f.iter_batches(batch_size=ROWS_PER_BATCH, columns=columns):
            yield from _in_ms(batch).to_pylist()


def _in_ms(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Converts Spark's timestamps to numbers."""
    place = batch.schema.get_field_index("timestamp")
    if place < 0 or not pa.types.is_timestamp(batch.schema.field(place).type):
        return batch
    numbers = batch.column(place).cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    return batch.set_column(place, "timestamp", numbers)


def _read_json_lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as f:
        for number, line in enumerate(f, 1):
            try:
                yield _json_record(line)
            except (ValueError, TypeError, KeyError, AttributeError, Malformed) as e:
                raise ArchiveError(
                    f"{path}, line {number}: expected a record as JSON, but {e}.", "restore the file."
                ) from None


def _json_record(line: bytes) -> dict[str, Any]:
    # what is not UTF-8 in a value must reach the decoder, which rejects it as the job would
    text = line.decode("utf-8-sig", "surrogatepass")
    if text.count("{") == 1:  # no object in place of bytes: this takes a tenth of the time
        plain = json.loads(text, object_pairs_hook=_unique)
        return {**plain, "key": _from_base64(plain.get("key")), "value": _from_base64(plain.get("value"))}
    texts = _members(text)
    fields = {name: json.loads(texts[name]) for name in _NUMBERS if name in texts}
    headers = texts.get("headers", "null")
    if headers != "null":
        fields["headers"] = [_json_header(_members(item)) for _, item in children(headers, "[")]
    return {**fields, "key": _json_bytes(texts.get("key", "null")), "value": _json_bytes(texts.get("value", "null"))}


def _json_header(texts: dict[str, str]) -> dict[str, Any]:
    return {"key": json.loads(texts["key"]), "value": _json_bytes(texts["value"])}


def _members(text: str) -> dict[str, str]:
    """The texts of an object's members. Raises Malformed."""
    return _unique([(json.loads(name), content) for name, content in children(text, "{")])


def _unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(members)
    if len(unique) != len(members):
        raise Malformed("a name occurs twice in it")
    return unique


def _json_bytes(text: str) -> bytes | None:
    return text.encode("utf-8", "surrogatepass") if text.startswith("{") else _from_base64(json.loads(text))


def _from_base64(content: Any) -> bytes | None:
    return None if content is None else base64.b64decode(content, validate=True)


READERS: dict[str, Callable[[Path], Iterator[dict[str, Any]]]] = {
    AVRO: _read_avro,
    PARQUET: _read_parquet,
    JSON_LINES: _read_json_lines,
}


# Writing


def write_file(path: Path, records: Iterable[ArchivedRecord]) -> int:
    """Writes a whole file or none, and returns the number of records. The suffix of the name selects the format."""
    temporary = path.with_name(path.name + ".tmp")
    counted = _Counted(records)
    with temporary.open("wb") as f:
        WRITERS[path.suffix.removeprefix(".")](f, counted)
        f.flush()
        os.fsync(f.fileno())
    temporary.replace(path)
    return counted.n


class _Counted:
    def __init__(self, records: Iterable[ArchivedRecord]) -> None:
        self.records = records
        self.n = 0

    def __iter__(self) -> Iterator[ArchivedRecord]:
        for record in self.records:
            self.n += 1
            yield record


def _fields(r: ArchivedRecord) -> dict[str, Any]:
    headers = [{"key": name, "value": content} for name, content in r.headers]
    return {
        "offset": r.offset,
        "timestamp": r.timestamp_ms,
        "timestampType": r.timestamp_type,
        "key": r.key,
        "headers": headers,
        "value": r.value,
    }


def _write_avro(f: Any, records: Iterable[ArchivedRecord]) -> None:
    rows = map(_fields, records)
    fastavro.writer(f, AVRO_SCHEMA, rows, codec="deflate", codec_compression_level=DEFLATE_LEVEL)


def _write_parquet(f: Any, records: Iterable[ArchivedRecord]) -> None:
    with pq.ParquetWriter(f, PARQUET_SCHEMA, compression="zstd") as writer:
        rows: list[dict[str, Any]] = []
        for record in records:
            rows.append(_fields(record))
            if len(rows) == ROWS_PER_BATCH:
                writer.write_batch(pa.RecordBatch.from_pylist(rows, PARQUET_SCHEMA))
                rows = []
        writer.write_batch(pa.RecordBatch.from_pylist(rows, PARQUET_SCHEMA))


def _write_json_lines(f: Any, records: Iterable[ArchivedRecord]) -> None:
    for record in records:
        fields = _fields(record)
        for header in fields["headers"]:
            header["value"] = _base64(header["value"])
        fields["key"], fields["value"] = _base64(record.key), _base64(record.value)
        f.write(json.dumps(fields).encode() + b"\n")


def _base64(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


WRITERS: dict[str, Callable[[Any, Iterable[ArchivedRecord]], None]] = {
    AVRO: _write_avro,
    PARQUET: _write_parquet,
    JSON_LINES: _write_json_lines,
}
