"""Strict JSON parsing, and the canonical text of any JSON.

The canonical text has members in the code point order of their names, no white space, strings escaped as in RFC 8785,
and numbers as they were written. Two texts with the same canonical text are equal.

These texts are rejected, because readers interpret them differently: a name twice in one object, NaN or Infinity, half
of a surrogate pair, more than 100 levels, or a number of more than 1,000 digits. The levels of a surrounding record do
not count. So a JSON field has the same limit in JSON and in Avro.
"""

from __future__ import annotations

import json
import json.decoder
import json.encoder
import re
from json.encoder import encode_basestring
from typing import Any, Final

from moneystate.engine.avro import Malformed
from moneystate.engine.json_object import BOM
from moneystate.records.json_number import Number

MAX_LEVELS: Final = 100
MAX_RECORD_LEVELS: Final = 2 * MAX_LEVELS  # of a record with its JSON fields, which are also checked separately
MAX_DIGITS: Final = 1_000
_WHITE_SPACE: Final = " \t\n\r"  # JSON's; `str.strip` alone would remove more
quote = encode_basestring


def canonical_document(text: str) -> Any:
    """The document, if the standard library reads `text` and writes the same text: then it is canonical. None: it may
    still be canonical, because the library writes numbers such as `1e5` differently, or it is `null`. For most texts
    this takes half the time of `parse` and `canonical_text`."""
    if text.count("[") + text.count("{") > MAX_LEVELS or (len(text) > MAX_DIGITS and _MANY_DIGITS.search(text)):
        return None
    try:
        document, _ = _scan(text, 0)
        return document if written(document) == text else None
    except (ValueError, Malformed, RecursionError, StopIteration):
        return None


def written(document: Any) -> str:
    return "".join(_pieces(document, 0))


def decoded(value: bytes) -> str:
    """The text of a value, without a byte order mark. Raises Malformed."""
    try:
        return value.decode().removeprefix(BOM)
    except UnicodeDecodeError:
        raise Malformed("not UTF-8") from None


def parse(text: str, most: int = MAX_LEVELS) -> Any:
    """The document in `text`, with numbers as `Number`. `most`: how many levels it may have. Raises Malformed."""
    text = text.strip(_WHITE_SPACE)
    try:
        document, end = _scan_strictly(text, 0)
    except StopIteration as e:
        raise Malformed(f"not JSON: Expecting value at character {e.value}") from None
    except json.JSONDecodeError as e:
        raise Malformed(f"not JSON: {e.msg} at character {e.pos}") from None
    except RecursionError:
        raise Malformed(f"more than {most} levels") from None
    if end != len(text):
        raise Malformed("more text after the JSON")
    if text.count("[") + text.count("{") > MAX_LEVELS or "\\u" in text:
        check_levels(document, 0, most)
    return document


def canonical_text(parsed: Any) -> str:
    """The canonical text of a parsed document."""
    kind = type(parsed)
    if kind is str:
        return quote(parsed)
    if kind is Number:
        return str(parsed)
    if kind is dict:
        return "{" + ",".join([quote(name) + ":" + canonical_text(parsed[name]) for name in sorted(parsed)]) + "}"
    if kind is list:
        return "[" + ",".join([canonical_text(item) for item in parsed]) + "]"
    return "null" if parsed is None else "true" if parsed else "false"


def member_texts(canonical: str) -> dict[str, str]:
    """The canonical texts of an object's members, which are parts of the object's own text. Empty for other values."""
    texts: dict[str, str] = {}
    if canonical[0] != "{" or canonical == "{}":
        return texts
    end = 0
    while canonical[end] != "}":
        name, colon = _scan_string(canonical, end + 2, True)  # past `{` or `,` and the quotation mark
        start = colon + 1
        _, end = _scan(canonical, start)
        texts[name] = canonical[start:end]
    return texts


def check_levels(parsed: Any, level: int, most: int) -> None:
    """Raises Malformed for too many levels, and for strings that UTF-8 cannot encode."""
    kind = type(parsed)
    if kind is str:
        try:
            parsed.encode()
        except UnicodeEncodeError:
            raise Malformed("a text with half of a surrogate pair") from None
    elif kind is dict or kind is list:
        if level == most:
            raise Malformed(f"more than {most} levels")
        for item in parsed:
            check_levels(item, level + 1, most)
        if kind is dict:
            for item in parsed.values():
                check_levels(item, level + 1, most)


def _unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(members)
    if len(unique) != len(members):
        raise Malformed("a name occurs twice in one object")
    return unique


def _number(text: str) -> Number:
    if len(text) > MAX_DIGITS and sum([character.isdigit() for character in text]) > MAX_DIGITS:
        raise Malformed(f"a number of more than {MAX_DIGITS:,} digits")
    return Number(text)


def _no_constant(name: str) -> None:
    raise Malformed(f"{name} is not JSON")


_MANY_DIGITS: Final = re.compile(f"[0-9]{{{MAX_DIGITS + 1}}}")
# The C functions of the standard library, called directly: its Python wrappers cost more than short texts do.
_scan: Final[Any] = json.JSONDecoder(parse_constant=_no_constant).scan_once  # type: ignore[attr-defined]
_scan_string: Final[Any] = json.decoder.scanstring  # type: ignore[attr-defined]
_pieces: Final[Any] = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
    None, None, encode_basestring, None, ":", ",", True, False, True
)
_scan_strictly: Final[Any] = json.JSONDecoder(  # type: ignore[attr-defined]
    object_pairs_hook=_unique, parse_float=_number, parse_int=_number, parse_constant=_no_constant
).scan_once
