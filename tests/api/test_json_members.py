"""Members of JSON that cannot be read as a whole."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moneystate.engine.avro import Malformed
from moneystate.records.json_members import readable_members
from moneystate.records.json_number import Number

REFUSED = {
    "a name twice": '{"x":{"a":1,"a":2},"y":"é"}',
    "NaN": '{"x":[NaN],"y":"é"}',
    "half of a pair": '{"x":"\\ud800","y":"é"}',
    "many levels": '{"x":' + "[" * 101 + "]" * 101 + ',"y":"é"}',
    "more levels than a stack has": '{"x":' + '{"a":[' * 20_000 + "]}" * 20_000 + ',"y":"é"}',
    "many digits": '{"x":' + "1" * 5_000 + ',"y":"é"}',
    "a member twice": '{"x":1,"y":"é","x":2}',
}
NO_JSON = (
    "", "{", '{"x":1', '{"x":1}}', '{"x":1,}', '{"x":01}', '{"x" 1}', '{x:1}', '{"x":[1}]', "[1]", "1", '{"x":1} 2',
    '{"x":"\n"}', '{"x":"\\q"}', '{"x":[,]}', '{"x":1 "y":2}', '{:1}', '{"x":}', '{"x"}',
)  # fmt: skip


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_a_member_is_read_beside_one_that_cannot_be(text: str) -> None:
    assert readable_members(text.encode()) == {"y": "é"}


@pytest.mark.parametrize("text", NO_JSON)
def test_what_is_no_object_has_no_members(text: str) -> None:
    with pytest.raises(Malformed):
        readable_members(text.encode())


def test_bytes_that_are_no_text_have_no_members() -> None:
    for value in (None, b'{"x":"\xff"}'):
        with pytest.raises(Malformed):
            readable_members(value)


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(
    st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=3), JSONS, max_size=4), st.sampled_from((None, 1))
)
def test_right_json_has_all_its_members(document: dict[str, object], indent: int | None) -> None:
    members = readable_members(json.dumps(document, indent=indent).encode())
    assert plain(members) == document


def plain(parsed: object) -> object:
    if isinstance(parsed, dict):
        return {name: plain(value) for name, value in parsed.items()}
    if isinstance(parsed, list):
        return [plain(value) for value in parsed]
    return int(parsed) if isinstance(parsed, Number) else parsed
