"""Records of topics as people read them: JSON, Avro by the declared records of services, else bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from moneystate.console.shown import pretty
from moneystate.engine.avro import HEADER_BYTES, MAGIC, Malformed
from moneystate.errors import MoneystateError
from moneystate.records.codec import Codec
from moneystate.runtime.job import topic_records
from moneystate.runtime.plans import plan_of

MOST_SHOWN: Final = 40_000  # characters of all values of a page
LEAST_SHOWN: Final = 400  # of each value
MOST_NAME: Final = 300  # characters of a key or a header
HEX_WIDTH: Final = 16
HEX_CHARACTERS: Final = 5  # of a byte in hex, its share of the line's beginning and end included
CONFLUENT, CONFLUENT_BYTES = b"\0", 5  # how its values begin: a zero byte and the schema's id
ReadsRegistered = Callable[[bytes], tuple[str, str]]  # a value as JSON, and its type; raises ValueError


@dataclass(frozen=True)
class Content:
    """`kind`: json, text, avro, bytes or none; `about`: the record's type, or why it is shown as bytes; `cut`: bytes
    that are not shown."""

    kind: str
    text: str
    about: str = ""
    cut: int = 0


def codecs_of(references: list[str]) -> dict[bytes, Codec]:
    """Returns the codecs of all records of the topics of services, by the first bytes of their values. A service whose
    module cannot be imported here is left out."""
    codecs: dict[bytes, Codec] = {}
    for reference in references:
        with suppress(MoneystateError):
            for record in topic_records(plan_of(reference)).values():
                codec = Codec(record)
                codecs[codec.header] = codec
    return codecs


def content_of(
    value: bytes | None, codecs: Mapping[bytes, Codec], registered: ReadsRegistered | None = None,
    most: int = MOST_SHOWN,
) -> Content:  # fmt: skip
    """`registered`: reads values in the Confluent format; None: without a registry. `most`: characters that are
    shown."""
    if value is None:
        return Content("none", "", "a tombstone")
    if value[:1] == CONFLUENT and len(value) >= CONFLUENT_BYTES:
        return _confluent(value, registered, most)
    if value[: len(MAGIC)] == MAGIC and len(value) >= HEADER_BYTES:
        return _avro(value, codecs, most)
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return _bytes(value, "not UTF-8", most)
    if "\0" in text:
        return _bytes(value, "not a text", most)
    return _text("json" if text[:1] in ("{", "[") else "text", text, "", most)


def share(records: int) -> int:
    """Returns how many characters of each of some records a page shows."""
    return max(LEAST_SHOWN, MOST_SHOWN // max(1, records))


def _confluent(value: bytes, registered: ReadsRegistered | None, most: int) -> Content:
    schema = f"schema {int.from_bytes(value[1:CONFLUENT_BYTES], 'big')} of a registry"
    if registered is None:
        return _bytes(value, f"Confluent's format, {schema}: give --schema-registry URL to decode it", most)
    try:
        text, name = registered(value)
    except ValueError as e:
        return _bytes(value, f"Confluent's format, {schema}, that cannot be read: {e}", most)
    return _text("avro", text, f"{name}, {schema}", most)


def _avro(value: bytes, codecs: Mapping[bytes, Codec], most: int) -> Content:
    codec = codecs.get(value[:HEADER_BYTES])
    if codec is None:
        return _bytes(value, f"Avro of an unknown schema, fingerprint {value[len(MAGIC) : HEADER_BYTES].hex()}", most)
    try:
        text = codec.to_json(codec.decode(value)).decode()
    except (Malformed, MoneystateError) as e:
        return _bytes(value, f"{codec.record.name} that cannot be read: {e}", most)
    return _text("avro", text, codec.record.name, most)


def _text(kind: str, text: str, about: str, most: int) -> Content:
    """A long text keeps its form: with line ends it would be longer, and is cut anyway."""
    shown = pretty(text) if len(text) <= most else text
    return Content(kind, shown[:most], about, max(0, len(shown) - most))


def _bytes(value: bytes, about: str, most: int) -> Content:
    shown = most // HEX_CHARACTERS
    return Content("bytes", hex_dump(value[:shown]), about, max(0, len(value) - shown))


def hex_dump(value: bytes) -> str:
    lines = []
    for start in range(0, len(value), HEX_WIDTH):
        part = value[start : start + HEX_WIDTH]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<{3 * HEX_WIDTH}} {shown}")
    return "\n".join(lines)


def text_of(value: bytes | None) -> str:
    """A key or a header."""
    if value is None:
        return ""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = value[:MOST_NAME].hex(" ")
    return text if len(text) <= MOST_NAME else f"{text[:MOST_NAME]}\u2026 ({len(value):,} bytes)"
