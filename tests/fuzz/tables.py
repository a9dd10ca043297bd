"""Files whose rows `moneystate table load` reads, and cells of text."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from moneystate.engine.avro import Malformed
from moneystate.errors import ConfigError, SourceError
from moneystate.records.json_text import canonical_text, parse
from moneystate.tables.cells import cell_readers
from moneystate.tables.columns import Declared
from moneystate.tables.files import FileSource
from moneystate.tables.records import Made, RecordMaker
from tests.fuzz.files import in_folder
from tests.fuzz.mutation import mutated
from tests.fuzz.target import all_of, result_of, target

TYPES = dict(zip("abcdefg", cell_readers(None), strict=True))
CSV = b"""sku,a,b,c,d,e,f,g
x,text,7,1.50,true,2026-01-31T12:00:00Z,2026-01-31,"{""a"":[1.50]}"
"y ""1""\n",,,,,,,
z,"a,b",-0,+1e3,F,2026-01-31T12:00:00.1+02:00,2026-02-28,null
"""
JSON_LINES = b"""{"sku":"x","n":1.50,"o":{"b":[],"a":null}}

{"sku":7,"t":"\\u00e4"}
"""
LARGEST = 2_000


def parquet() -> bytes:
    columns: dict[str, Any] = {
        "sku": pa.array(["x", "y"]),
        "n": pa.array([Decimal("1.10"), None], pa.decimal128(20, 2)),
        "t": pa.array([datetime(2026, 1, 31, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
        "tags": pa.array([["x"], []], pa.list_(pa.string())),
        "o": pa.array([{"a": 1}, None], pa.struct([("a", pa.int64())])),
        "raw": pa.array([b"\x00", None]),
    }
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def check_made(made: Made) -> None:
    """A record that readers can take, or a reason in one line."""
    assert made.number > 0
    if made.value is None:
        assert made.why
        assert "\n" not in made.why
        return
    assert made.key is not None
    made.key.decode()
    assert canonical_text(parse(made.value.decode())) == made.value.decode()
    assert len(made.key) + len(made.value) <= LARGEST


def reading(name: str, declared: Declared) -> Callable[[bytes], None]:
    def read(content: bytes) -> None:
        def check(folder: Path) -> None:
            path = folder / name
            path.write_bytes(content)
            os.utime(path, (0, 0))
            source = FileSource(path, None, declared)
            with source.open() as opened:
                for made in map(RecordMaker(source.key, LARGEST), all_of(opened.rows())):
                    check_made(made)

        in_folder(lambda folder: result_of(lambda: check(folder), SourceError, ConfigError))

    return read


target("tables.csv", mutated(st.just(CSV)), share=0.5)(reading("t.csv", Declared(("sku",), types=TYPES)))
target("tables.json_lines", mutated(st.just(JSON_LINES)), share=0.5)(reading("t.jsonl", Declared(("sku",))))
BAD_NAME = parquet().replace(b"list", b"l\xe9st")
target("tables.parquet", mutated(st.just(parquet())), BAD_NAME, share=0.2)(reading("t.parquet", Declared(("sku",))))


@target(
    "tables.cells", st.tuples(st.sampled_from(sorted(TYPES.values())), st.text() | st.from_regex(r"[-+0-9.eETZ:{}\"]+"))
)
def read_cell(given: tuple[str, str]) -> None:
    kind, text = given
    value = result_of(lambda: cell_readers(UTC)[kind](text), Malformed)
    if value is not None and kind != "text":
        parse(canonical_text(value))
