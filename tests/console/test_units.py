"""What pages are made of, without a server."""

from __future__ import annotations

import json
import shlex
from decimal import Decimal
from io import BytesIO

import fastavro
import pytest

from moneystate.console import decoding, faces, forms, rendering, shown, topology
from moneystate.console.registered import Registered
from moneystate.records import exact_json
from moneystate.records.codec import Codec
from moneystate.runtime.job import topic_records
from moneystate.runtime.plans import plan_of
from tests.console.notes import Taken
from tests.formats.registry_server import RegistryServer

FIELDS = [
    {"name": "key", "type": "string"},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
    {"name": "since", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "limit", "type": "int", "default": 100},
    {"name": "whole", "type": "boolean", "default": False},
    {"name": "site", "type": ["null", "string"], "default": None},
    {"name": "ids", "type": {"type": "array", "items": "string"}},
]
ARGUMENTS = json.dumps({"type": "record", "name": "Arguments", "fields": FIELDS})
GIVEN = {"key": "a b", "kind": "B", "since": "2026-01-31T10:00:00Z", "limit": "7", "whole": "true", "ids": '["x"]'}


def test_a_table_fits_on_a_page_whatever_it_has() -> None:
    wide = {f"{'n' * 1_000}{n}": "v" * 1_000 for n in range(10_000)}
    tables = [
        shown.fields(wide), shown.table([wide] * 100), shown.table(["v" * 10_000] * 1_000),
        shown.differences(wide, {}), shown.fields({"n" * 1_000_000: "v" * 1_000_000}),
    ]  # fmt: skip
    for its in tables:
        names = sum(map(len, its.columns))
        assert sum(len(one.text) for row in its.rows for one in row) + names < 120_000
        assert sum(map(len, its.rows)) <= shown.MOST_CELLS
    assert tables[1].more_rows + len(tables[1].rows) == 100
    assert tables[1].more_columns == 9_800
    one_of_fifty = shown.fitted(tables[3], 50)
    assert sum(len(one.text) for row in one_of_fifty.rows for one in row) < 4_000


def test_only_the_longest_values_of_a_table_are_cut() -> None:
    rows = [[shown.Cell("short"), shown.Cell("v" * 2_000 * n, cut=1)] for n in range(20)]
    its = shown.fitted(shown.Table(("a", "b"), rows))
    assert [row[0].text for row in its.rows] == ["short"] * 20
    assert its.rows[1][1] == rows[1][1]
    last = its.rows[19][1]
    assert len(last.text) + last.cut == 38_001
    assert max(len(row[1].text) for row in its.rows) == len(last.text)


def test_values_that_cannot_be_read_are_shown_as_they_are() -> None:
    deep, digits = "[" * 5_000 + "]" * 5_000, "9" * 5_000
    assert shown.json_of(deep) == deep
    assert shown.json_of(digits) == digits
    assert shown.pretty("[" * 700 + "]" * 700) == "[" * 700 + "]" * 700
    nested: list[object] = []
    for _ in range(5_000):
        nested = [nested]
    assert shown.cell(nested).text == shown.TOO_DEEP
    assert shown.differences({"a": 1}, {"a": nested}).rows[0][2].text == shown.TOO_DEEP


def test_masked_values_of_a_history_are_marked() -> None:
    its = shown.differences(None, {"author": "", "text": "x"}, masked=["author"])
    assert [[one.text for one in row] for row in its.rows] == [["author", "", "(masked)"], ["text", "", "x"]]


def test_a_form_has_an_input_for_each_argument() -> None:
    fields = forms.fields_of(ARGUMENTS)
    assert [(one.name, one.kind, one.required, one.default) for one in fields] == [
        ("key", "text", True, ""), ("kind", "choice", True, ""), ("since", "text", True, ""),
        ("limit", "number", False, "100"), ("whole", "choice", False, "false"), ("site", "text", False, ""),
        ("ids", "text", True, ""),
    ]  # fmt: skip
    assert fields[1].choices == ("A", "B")


def test_arguments_are_json_of_their_types() -> None:
    text = forms.arguments_of(forms.fields_of(ARGUMENTS), GIVEN)
    assert json.loads(text) == {
        "key": "a b", "kind": "B", "since": "2026-01-31T10:00:00Z", "limit": 7, "whole": True, "ids": ["x"],
    }  # fmt: skip


def test_an_empty_text_is_a_text_and_an_empty_number_is_none() -> None:
    fields = forms.fields_of(ARGUMENTS)
    assert json.loads(forms.arguments_of(fields, {**GIVEN, "key": "", "limit": ""}))["key"] == ""
    with pytest.raises(forms.Wrong) as wrong:
        forms.arguments_of(fields, {**GIVEN, "kind": "", "limit": "x", "ids": "["})
    assert wrong.value.problems == {
        "kind": "kind: expected one of the list, found nothing.",
        "limit": "limit: expected whole number, found x.",
        "ids": "ids: expected JSON, found [.",
    }


def test_the_command_asks_the_same() -> None:
    words = forms.command_of("notes", "find", forms.fields_of(ARGUMENTS), GIVEN, "127.0.0.1:1")
    assert shlex.join(words) == (
        "moneystate ask notes find 'key=a b' kind=B since=2026-01-31T10:00:00Z limit=7 whole=true 'ids=[\"x\"]' "
        "--address 127.0.0.1:1"
    )


def test_values_are_cells_and_large_ones_are_cut() -> None:
    assert shown.cell(None) == shown.Cell("null", "null")
    assert shown.cell("secret", masked=True) == shown.Cell("(masked)", "masked")
    assert shown.cell(exact_json.loads("1.10")) == shown.Cell("1.10", "number")
    assert shown.cell({"a": Decimal(1)}).kind == "json"
    assert shown.cell("x" * 5_000) == shown.Cell("x" * 2_000, "text", 3_000)
    many = shown.fields({str(n): n for n in range(1_000)})
    assert (len(many.rows), many.more_rows) == (200, 800)
    assert shown.whole('"' + "x" * 30_000 + '"').cut > 9_000


def test_a_list_is_a_table_and_an_object_is_its_fields() -> None:
    table = shown.table([{"a": 1}, {"b": "x"}])
    assert (list(table.columns), [[one.text for one in row] for row in table.rows]) == (
        ["a", "b"], [["1", ""], ["", "x"]],
    )  # fmt: skip
    assert shown.table({"a": 1}).columns == ("field", "value")
    assert [row[0].text for row in shown.table([1, "x"]).rows] == ["1", "x"]
    assert shown.table([{"n": n} for n in range(600)]).more_rows == 100


def test_differences_tell_1_from_true_and_absent_from_null() -> None:
    rows = shown.differences({"a": 1, "b": 2, "c": None}, {"a": True, "b": 2})
    assert [(row[0].text, row[1].text, row[2].text) for row in rows.rows] == [("a", "1", "true"), ("c", "null", "")]
    assert [row[0].text for row in shown.differences(None, {"a": 1}).rows] == ["a"]


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, "none", ""),
        (b'{"a":1}', "json", '{\n  "a": 1\n}'),
        (b'{"a":1.10}', "json", '{"a":1.10}'),
        (b"plain", "text", "plain"),
        (b"\xff\x00", "bytes", "00000000  ff 00                                            .."),
        (b"a\0b", "bytes", "00000000  61 00 62                                         a.b"),
        (b"\xc3\x01" + b"\x01" * 8 + b"x", "bytes", None),
    ],
)
def test_contents_of_records(value: bytes | None, kind: str, text: str | None) -> None:
    content = decoding.content_of(value, {})
    assert content.kind == kind
    assert text is None or content.text == text


def test_avro_is_decoded_by_the_declared_records() -> None:
    codecs = decoding.codecs_of(["tests.console.notes:service", "no.such.module:service"][:1])
    record = topic_records(plan_of("tests.console.notes:service"))
    value = next(Codec(one) for one in record.values() if one.cls is Taken).encode(Taken("n1", 3))
    content = decoding.content_of(value, codecs)
    assert (content.kind, json.loads(content.text)["count"]) == ("avro", 3)
    assert decoding.content_of(value[:-1], codecs).kind == "bytes"


def test_characters_that_reorder_text_are_visible() -> None:
    assert rendering.visible("a\u202eb\u2066c\x07") == "a\u27e8U+202E\u27e9b\u27e8U+2066\u27e9c\u27e8U+0007\u27e9"
    assert rendering.visible("line\nend\tß日") == "line\nend\tß日"


def test_durations_and_sizes() -> None:
    assert [rendering.age(ms) for ms in (None, 5, 1_500, 61_000, 7_200_000, 200_000_000)] == [
        "-", "5 ms", "1.5 s", "1 min", "2 h", "2 d",
    ]  # fmt: skip
    assert [rendering.size(count) for count in (5, 2_048, 3 << 20)] == ["5 B", "2.0 KB", "3.0 MB"]


def test_a_picture_has_the_neighbours_of_a_service_once_and_arrows_between_columns() -> None:
    def stream(topic: str) -> topology.Stream:
        return topology.Stream(topic, topology.EVENTS)

    mine = topology.Wiring("b", (stream("in.*"), stream("x")), (stream("out"),))
    before = topology.Wiring("a", (), (stream("x"), stream("unread")))
    after = topology.Wiring("c", (stream("out"), stream("x")), ())
    known = topology.resolved(mine, ["in.1", "in.2", "other"])
    assert [one.topic for one in known.reads] == ["in.1", "in.2", "x"]
    picture = topology.picture_of(known, [known, before, after], {"x": 2.5})
    assert [one.label for one in picture.boxes] == ["a", "in.1", "in.2", "x", "b", "out", "c"]
    assert {one.label: one.about for one in picture.boxes}["x"] == "events, 2.5/s"
    assert len({(one.x, one.y) for one in picture.boxes}) == 7
    assert len(picture.arrows) == 6
    assert all(one.x1 < one.x2 for one in picture.arrows)
    assert all(one.y >= 0 and one.y + topology.HEIGHT <= picture.height for one in picture.boxes)


def test_a_service_whose_module_is_not_here_is_drawn_by_its_topics() -> None:
    topics = [
        "a-commits", "a-state", "a-clock", "a-done", "a-dead-letters", "a-b-commits", "a-b-out", "ab-out", "orders",
    ]  # fmt: skip
    its = topology.seen("a", ["orders", "orders", "a-b-out"], topics, ["a", "a-b", "ab"])
    assert [(one.topic, one.kind) for one in its.reads] == [("a-b-out", topology.READ), ("orders", topology.READ)]
    assert [(one.topic, one.kind) for one in its.writes] == [
        ("a-dead-letters", topology.LETTERS), ("a-done", topology.NAMED),
    ]  # fmt: skip
    alone = topology.seen("ab", [], topics, ["a", "a-b", "ab"])
    assert [one.topic for one in alone.writes] == ["ab-out"]


def test_values_of_a_registry_are_decoded_with_the_schema_that_they_name() -> None:
    fields = [
        {"name": "id", "type": "string"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ]
    schema = {"type": "record", "name": "Sold", "namespace": "shop", "fields": fields}
    with RegistryServer() as server:
        number = server.add(schema)
        body = BytesIO()
        fastavro.schemaless_writer(body, schema, {"id": "s1", "price": Decimal("1.10")})
        value = b"\0" + number.to_bytes(4, "big") + body.getvalue()
        read = Registered(server.url).read
        content = decoding.content_of(value, {}, read)
        assert (content.kind, content.about) == ("avro", f"shop.Sold, schema {number} of a registry")
        assert json.loads(content.text) == {"id": "s1", "price": "1.10"}
        assert "cannot be read" in decoding.content_of(value[:7], {}, read).about
        unknown = decoding.content_of(b"\0" + (number + 7).to_bytes(4, "big") + body.getvalue(), {}, read)
        assert (unknown.kind, "cannot be read" in unknown.about) == ("bytes", True)
    assert "give --schema-registry URL" in decoding.content_of(value, {}).about


def test_a_heat_map_is_a_table_with_texts() -> None:
    block = faces.HeatMap("Share <1>", ["10:00", "10:15"], {"today": [faces.Spot("99.0", 2, "1 missing"), None]})
    page = rendering.environment().from_string('{% import "parts.html" as parts with context %}{{ parts.heat(block) }}')
    html = page.render(block=block)
    assert '<td class="heat-2" title="1 missing">99.0</td><td></td>' in html
    assert "Share &lt;1&gt;" in html
    assert '<th scope="row">today</th>' in html
