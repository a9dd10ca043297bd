"""Bodies of requests become documents, within limits."""

from __future__ import annotations

import gzip

import pytest

from moneystate.engine.avro import Malformed
from moneystate.ingest.bodies import Kind, decompressed, documents, kind_of
from moneystate.ingest.refusals import Refused

MOST = 1_000


@pytest.mark.parametrize(
    ("content_type", "kind"),
    [
        ("application/json", Kind.json),
        ("Application/JSON; charset=UTF-8", Kind.json),
        ("application/x-ndjson", Kind.lines),
        ('application/jsonl;charset="utf8"', Kind.lines),
    ],
)
def test_content_types(content_type: str, kind: Kind) -> None:
    assert kind_of(content_type) is kind


@pytest.mark.parametrize(
    "content_type",
    ["", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", "application/xml"],
)
def test_other_content_types_are_refused(content_type: str) -> None:
    with pytest.raises(Refused) as refused:
        kind_of(content_type)
    assert refused.value.status == 415


def test_gzip_is_decompressed_also_if_it_has_several_members() -> None:
    assert decompressed(b"abc", "", MOST) == b"abc"
    assert decompressed(gzip.compress(b"abc"), "GZIP", MOST) == b"abc"
    assert decompressed(gzip.compress(b"abc") + gzip.compress(b"def"), "gzip", 6) == b"abcdef"


@pytest.mark.parametrize("members", [1, 2, 50])
def test_limits_hold_after_decompression(members: int) -> None:
    """A bomb is not decompressed any further than to the limit."""
    body = gzip.compress(b"x" * (MOST // members + 1)) * members
    with pytest.raises(Refused) as refused:
        decompressed(body, "gzip", MOST)
    assert (refused.value.code, refused.value.status) == ("BODY_TOO_LARGE", 413)
    with pytest.raises(Refused):
        decompressed(gzip.compress(b"x" * 100_000_000), "gzip", MOST)


def test_what_is_no_gzip_and_what_is_cut_off_is_refused() -> None:
    for body in (b"{}", gzip.compress(b"abc")[:-9], gzip.compress(b"abc") + b"rest"):
        with pytest.raises(Refused) as refused:
            decompressed(body, "gzip", MOST)
        assert refused.value.code == "BAD_BODY"
    with pytest.raises(Refused) as refused:
        decompressed(b"{}", "br", MOST)
    assert refused.value.status == 415


def test_a_record_an_array_and_lines() -> None:
    assert documents(Kind.json, b'{"a": "b"}', 2) == ([{"a": "b"}], False)
    assert documents(Kind.json, b'[{"a": "b"}, {}]', 2) == ([{"a": "b"}, {}], True)
    assert documents(Kind.lines, b'{"a": "b"}\r\n\n \n{}', 2) == ([{"a": "b"}, {}], True)
    assert documents(Kind.lines, b"{}", 2) == ([{}], True)


def test_a_line_that_is_no_json_spoils_only_itself() -> None:
    items, _ = documents(Kind.lines, b'{}\n{"a":\n{}\n\xff\n', 10)
    assert [isinstance(item, Malformed) for item in items] == [False, True, False, True]


@pytest.mark.parametrize("body", [b"", b"nonsense", b"[{}", b'{"a":1,"a":2}', b"[NaN]", b"[" * 500, b"\xff", b"[]"])
def test_a_body_that_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(Refused) as refused:
        documents(Kind.json, body, 10)
    assert refused.value.code == "BAD_BODY"


@pytest.mark.parametrize(("kind", "body"), [(Kind.json, b"[1,2,3]"), (Kind.lines, b"1\n2\n3\n")])
def test_a_body_with_too_many_records_is_refused(kind: Kind, body: bytes) -> None:
    with pytest.raises(Refused) as refused:
        documents(kind, body, 2)
    assert refused.value.status == 413
