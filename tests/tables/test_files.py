"""Rows of files with their lines, what is wrong with some, and files that somebody writes meanwhile."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import moneystate as ms
from moneystate.errors import ConfigError, SourceError
from moneystate.records.shapes import Shapes
from moneystate.tables import files
from moneystate.tables.columns import Declared, Names, parsed_types
from moneystate.tables.files import FileSource
from moneystate.tables.records import Made, RecordMaker
from moneystate.tables.rows import LINE, ROW

SKU = Declared(("sku",))
OLD = (1_000_000_000, 1_000_000_000)


def made(
    path: Path, declared: Declared = SKU, largest: int = 10_000, delimiter: str = ",",
    wait: Callable[[float], object] = lambda _: None,
) -> list[Made]:  # fmt: skip
    source = FileSource(path, None, declared, delimiter, wait)
    with source.open() as opened:
        records = list(map(RecordMaker(source.key, largest), opened.rows()))
        opened.check_unchanged()
    return records


def written(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.utime(path, OLD)
    return path


def rows(records: list[Made]) -> list[tuple[int, str, str]]:
    assert all(r.key is not None and r.value is not None for r in records), records
    return [(r.number, (r.key or b"").decode(), (r.value or b"").decode()) for r in records]


def problems(records: list[Made]) -> list[tuple[int, bytes | None, str]]:
    return [(r.number, r.key, r.why) for r in records if r.value is None]


def test_rows_of_csv_have_the_lines_on_which_they_begin(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", '\ufeffsku,unit_price\r\na,1\r\n\r\n"b\n""c""",\r\nd,"x,y"\r\n')
    assert rows(made(path)) == [
        (2, "a", '{"sku":"a","unitPrice":"1"}'),
        (4, 'b\n"c"', '{"sku":"b\\n\\"c\\"","unitPrice":null}'),
        (6, "d", '{"sku":"d","unitPrice":"x,y"}'),
    ]


def test_each_problem_of_csv_is_named_by_its_line_and_by_its_key_where_it_is_known(tmp_path: Path) -> None:
    declared = Declared(("sku",), types=parsed_types("n=int"))
    content = b'sku,n,t\na,x,\n,1,\nb,1\n"c"c,1,\nd\xff,1,\ne,1,\xff\nf,1,' + b"y" * 2_000 + b'\ng,1,ok\nh,1,"no end\n'
    assert problems(made(written(tmp_path, "t.csv", content), declared, 1_000)) == [
        (2, b"a", "n: not a whole number"),
        (3, None, "sku: expected a part of the key, found null"),
        (4, None, "expected 3 cells, found 2"),
        (5, None, "not CSV: ',' expected after '\"'"),
        (6, None, "sku: not UTF-8"),
        (7, b"e", "t: not UTF-8"),
        (8, b"f", "a record of 2,025 bytes, the topic takes 488"),
        (10, None, "not CSV: unexpected end of data"),
    ]


def test_rows_of_json_lines_keep_their_numbers_and_names(tmp_path: Path) -> None:
    path = written(tmp_path, "t.jsonl", '{"sku":"a","unit_price":1.50}\n\n{"z":{"b":1e2,"a":[]},"sku":7}\n')
    assert rows(made(path)) == [
        (1, "a", '{"sku":"a","unit_price":1.50}'),
        (3, "7", '{"sku":7,"z":{"a":[],"b":1e2}}'),
    ]


def test_the_key_of_json_lines_keeps_its_name(tmp_path: Path) -> None:
    path = written(tmp_path, "t.jsonl", '{"order_id":"a"}\n')
    assert rows(made(path, Declared(("order_id",)))) == [(1, "a", '{"order_id":"a"}')]


def test_each_problem_of_json_lines_is_named_by_its_line(tmp_path: Path) -> None:
    lines = [
        "{",
        "[]",
        '{"sku":1.5}',
        '{"sku":true}',
        '{"sku":"a","sku":"b"}',
        '{"x":1}',
        '{"sku":"h","type":"Heartbeat"}',
    ]
    assert [(number, key) for number, key, _ in problems(made(written(tmp_path, "t.ndjson", "\n".join(lines))))] == [
        (1, None), (2, None), (3, None), (4, None), (5, None), (6, None), (7, b"h"),
    ]  # fmt: skip


def test_rows_of_parquet_have_the_types_of_their_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    columns: dict[str, Any] = {
        "sku": pa.array(["a", "b"]),
        "unit_price": pa.array([Decimal("1.10"), None], pa.decimal128(20, 2)),
        "at": pa.array([0, 1_500], pa.timestamp("us", "UTC")),
        "tags": pa.array([["x"], []], pa.list_(pa.string())),
    }
    pq.write_table(pa.table(columns), path)
    os.utime(path, OLD)
    assert rows(made(path)) == [
        (1, "a", '{"at":"1970-01-01T00:00:00.000Z","sku":"a","tags":["x"],"unitPrice":1.10}'),
        (2, "b", '{"at":"1970-01-01T00:00:00.001Z","sku":"b","tags":[],"unitPrice":null}'),
    ]
    assert (FileSource(path, None, SKU).unit, FileSource(tmp_path / "t.csv", None, SKU).unit) == (ROW, LINE)


def test_a_compressed_file_and_another_delimiter_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv.gz", gzip.compress(b"sku;n\na;1\n"))
    assert rows(made(path, delimiter=";")) == [(2, "a", '{"n":"1","sku":"a"}')]


def test_names_may_stay_as_they_are(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", "sku_no,Unit Price\na,1\n")
    assert rows(made(path, Declared(("sku_no",), Names.keep))) == [(2, "a", '{"Unit Price":"1","sku_no":"a"}')]


@pytest.mark.parametrize(
    ("name", "content", "declared", "error"),
    [
        ("t.csv", "", SKU, SourceError),
        ("t.csv", "a,b\n", SKU, SourceError),  # no key
        ("t.csv", "sku,x_y,xY\n", SKU, SourceError),  # a name twice
        ("t.csv", 'sku,"x\n', SKU, SourceError),
        ("t.csv", "sku\n", Declared(("sku",), types={"n": "int"}), ConfigError),
        ("t.jsonl", '{"sku":"a"}\n', Declared(("sku",), types={"sku": "int"}), ConfigError),
        ("t.parquet", "sku\na\n", Declared(("sku",), types={"sku": "int"}), ConfigError),
        ("t.parquet", "sku\na\n", SKU, SourceError),
        ("t.csv.gz", "sku\na\n", SKU, SourceError),
        ("t.csv.gz", gzip.compress(b"sku\n" + os.urandom(5_000).hex().encode())[:-9], SKU, SourceError),
        ("t.txt", "sku\na\n", SKU, ConfigError),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    name: str, content: bytes | str, declared: Declared, error: type[Exception], tmp_path: Path
) -> None:
    with pytest.raises(error):
        made(written(tmp_path, name, content), declared)


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        made(tmp_path / "t.csv")


@pytest.mark.parametrize("text", ["n", "n=", "=int", "n=integer"])
def test_types_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parsed_types(text)


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", "sku\na\n")
    with FileSource(path, None, SKU).open() as opened:
        assert len(list(opened.rows())) == 1
        with path.open("a") as more:
            more.write("b\n")
        with pytest.raises(SourceError):
            opened.check_unchanged()


def test_a_file_that_another_one_replaces_while_it_is_read_is_read_whole(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", "sku\na\nb\n")
    other = written(tmp_path, "other", "sku\nc\n")
    source = FileSource(path, None, SKU)
    before = source.stamp()
    with source.open() as opened:
        other.rename(path)
        assert [r.number for r in opened.rows()] == [2, 3]
        opened.check_unchanged()
    assert source.stamp() != before


def test_a_file_that_is_being_written_is_read_once_it_is_at_rest(tmp_path: Path) -> None:
    """The writer pauses for almost as long as a file must be at rest."""
    path = tmp_path / "t.csv"
    path.write_text("sku\n")
    lines, waited = [f"row{n}\n" for n in range(5)], [0.0]

    def wait(seconds: float) -> None:
        waited[0] += seconds
        if lines and waited[0] > 0.9 * files.REST_S:
            waited[0] = 0.0
            with path.open("a") as more:
                more.write(lines.pop(0))

    assert [r.number for r in made(path, wait=wait)] == [2, 3, 4, 5, 6]


@dataclass
class Price:
    sku: str
    unit_price: ms.Decimal
    valid_from: ms.Millis | None = None
    note: str = ""
    tags: list[str] = field(default_factory=list)


def test_a_record_says_the_types_of_the_columns_that_it_has(tmp_path: Path) -> None:
    declared = Declared(("sku",), record=Shapes("shop").record(Price, "the test"))
    content = 'sku,unit_price,valid_from,note,tags,other\na,1.50,2026-01-31T00:00:00+01:00,,"[""x""]",\n'
    ((number, key, value),) = rows(made(written(tmp_path, "t.csv", content), declared))
    assert (number, key) == (2, "a")
    assert value == (
        '{"note":"","other":null,"sku":"a","tags":["x"],"unitPrice":1.50,"validFrom":"2026-01-30T23:00:00.000Z"}'
    )


def test_a_time_that_python_does_not_know_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"sku": ["a"], "at": pa.array([10**15], pa.timestamp("ms", "UTC"))}), path)
    os.utime(path, OLD)
    with pytest.raises(SourceError):
        made(path)
