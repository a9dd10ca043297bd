"""Archive files say what they were given, in each format; damaged ones are errors with their names."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moneystate.bootstrap.files import FORMATS, NO_OFFSET, NO_TIMESTAMP, ArchivedRecord, read_file, write_file
from moneystate.errors import ArchiveError

RECORDS = [
    ArchivedRecord(0, 1_700_000_000_000, 0, b"ann", b"\x00\xff", [("trace", b"1"), ("empty", None)]),
    ArchivedRecord(3, 1_700_000_000_001, 1, None, None, []),
    ArchivedRecord(4, NO_TIMESTAMP, NO_TIMESTAMP, b"", b"", []),
]


@pytest.mark.parametrize("file_format", FORMATS)
def test_every_format_keeps_all_of_a_record(tmp_path: Path, file_format: str) -> None:
    path = tmp_path / f"0-4.{file_format}"
    assert write_file(path, RECORDS) == len(RECORDS)
    assert list(read_file(path)) == RECORDS


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_file_without_records_is_a_file(tmp_path: Path, file_format: str) -> None:
    path = tmp_path / f"0-4.{file_format}"
    assert write_file(path, []) == 0
    assert list(read_file(path)) == []


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_file_that_is_cut_off_is_an_error_that_names_it(tmp_path: Path, file_format: str) -> None:
    path = tmp_path / f"0-999.{file_format}"
    write_file(path, [ArchivedRecord(n, n, 0, b"key", b"value", []) for n in range(1000)])
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 - 3])
    with pytest.raises(ArchiveError, match=path.name):
        list(read_file(path))


def test_parquet_as_spark_writes_its_kafka_source_is_read(tmp_path: Path) -> None:
    path = tmp_path / "7-7.parquet"
    written = datetime(2026, 1, 31, tzinfo=UTC)
    columns = {
        "key": [b"ann"],
        "value": [b"v"],
        "topic": ["t"],
        "offset": [7],
        "timestamp": [written],
        "timestampType": [0],
    }
    pq.write_table(pa.table(columns), path)
    assert list(read_file(path)) == [
        ArchivedRecord(7, int(written.timestamp() * 1000), 0, b"ann", b"v", [], has_headers=False)
    ]


@pytest.mark.parametrize(
    "text",
    [
        '{"amount":1234567890123456.7891,"rate":1.10,"small":-0,"large":1e400}',
        '{ "a" : 1,\t"a" : 2 }',
        '{"n":' + "9" * 5_000 + "}",
        '{"deep":' + "[" * 5_000 + "]" * 5_000 + "}",
        '{"half":"\\ud800","escaped":"\\u00e9","as it is":"é"}',
        '{"n":NaN}',
        "{}",
    ],
    ids=["numbers", "a name twice", "a long number", "many levels", "half of a pair", "no number", "empty"],
)
@pytest.mark.parametrize("field", ["value", "key", "headers"])
def test_an_object_in_json_lines_is_its_own_text_to_the_byte(tmp_path: Path, field: str, text: str) -> None:
    path = tmp_path / "0-0.jsonl"
    content = f'[{{"key":"trace","value":{text}}},{{"key":"none","value":null}}]' if field == "headers" else text
    path.write_text(f'{{"offset":0, "{field}": {content} ,"timestamp":7}}\n')
    [record] = read_file(path)
    assert (record.offset, record.timestamp_ms) == (0, 7)
    read = {"value": record.value, "key": record.key, "headers": dict(record.headers).get("trace")}[field]
    assert read == text.encode()


@pytest.mark.parametrize(
    "line",
    [
        '{"offset":0,"offset":1,"value":null}',
        '{"value":{},"value":{}}',
        '{"value":{}',
        '{"value":[1]}',
        '[{"value":{}}]',
    ],
)
def test_a_line_that_is_not_one_record_is_an_error_that_names_it(tmp_path: Path, line: str) -> None:
    path = tmp_path / "0-9.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(ArchiveError, match="line 1"):
        list(read_file(path))


def test_json_lines_may_have_values_as_objects_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text(json.dumps({"value": {"id": "é"}}) + "\n")
    [record] = read_file(path)
    assert record[:3] == (NO_OFFSET, NO_TIMESTAMP, NO_TIMESTAMP)
    assert json.loads(record.value or b"") == {"id": "é"}
