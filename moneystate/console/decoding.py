"""Records of topics as people read them: JSON, Avro by the declared records of services, else bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from moneystate.api.codec import Codec
from moneystate.api.job import topic_records
from moneystate.api.plans import plan_of
from moneystate.console.shown import pretty
from moneystate.engine.avro import HEADER_BYTES, MAGIC, Malformed
from moneystate.errors import MoneystateError

MOST_BYTES: Final = 64 * 1024  # of a value that are shown
HEX_WIDTH: Final = 16
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
    """Of all records of the topics of services, by the first bytes of their values. A service whose module cannot be
    imported here is left out."""
    codecs: dict[bytes, Codec] = {}
    for reference in references:
        with suppress(MoneystateError):
            for record in topic_records(plan_of(reference)).values():
                codec = Codec(record)
                codecs[codec.header] = codec
    return codecs


def content_of(
    value: bytes | None, codecs: Mapping[bytes, Codec], registered: ReadsRegistered | None = None
) -> Content:
    """`registered`: reads values in the Confluent format; None: without a registry."""
    if value is None:
        return Content("none", "", "a tombstone")
    if value[:1] == CONFLUENT and len(value) >= CONFLUENT_BYTES:
        return _confluent(value, registered)
    if value[: len(MAGIC)] == MAGIC and len(value) >= HEADER_BYTES:
        return _avro(value, codecs)
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return _bytes(value, "not UTF-8")
    if "\0" in text:
        return _bytes(value, "not a text")
    cut = max(0, len(text) - MOST_BYTES)
    return Content(
        "json" if text[:1] in ("{", "[") else "text", pretty(text) if not cut else text[:MOST_BYTES], "", cut
    )


def _confluent(value: bytes, registered: ReadsRegistered | None) -> Content:
    schema = f"schema {int.from_bytes(value[1:CONFLUENT_BYTES], 'big')} of a registry"
    if registered is None:
        return _bytes(value, f"Confluent's format, {schema}: give --schema-registry URL to decode it")
    try:
        text, name = registered(value)
    except ValueError as e:
        return _bytes(value, f"Confluent's format, {schema}, that cannot be read: {e}")
    return Content("avro", pretty(text)[:MOST_BYTES], f"{name}, {schema}", max(0, len(text) - MOST_BYTES))


def _avro(value: bytes, codecs: Mapping[bytes, Codec]) -> Content:
    codec = codecs.get(value[:HEADER_BYTES])
    if codec is None:
        return _bytes(value, f"Avro of an unknown schema, fingerprint {value[len(MAGIC) : HEADER_BYTES].hex()}")
    try:
        text = codec.to_json(codec.decode(value)).decode()
    except (Malformed, MoneystateError) as e:
        return _bytes(value, f"{codec.record.name} that cannot be read: {e}")
    return Content("avro", pretty(text)[:MOST_BYTES], codec.record.name, max(0, len(text) - MOST_BYTES))


def _bytes(value: bytes, about: str) -> Content:
    return Content("bytes", hex_dump(value[: MOST_BYTES // 4]), about, max(0, len(value) - MOST_BYTES // 4))


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
        return value.decode()
    except UnicodeDecodeError:
        return value.hex(" ")
