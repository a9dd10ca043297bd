"""Produces records whose headers have names of any bytes, as producers in C can; Python's client takes only text."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int32, c_size_t, c_ssize_t, c_void_p
from importlib.metadata import files

TOPIC, PARTITION, VALUE, HEADERS, END = 1, 3, 4, 10, 0  # rd_kafka_vtype_t
PRODUCER = 0
FLUSH_MS = 30_000


def produce(bootstrap_servers: str, topic: str, value: bytes, header: bytes) -> None:
    """One record to partition 0."""
    rd, error = _librdkafka(), ctypes.create_string_buffer(512)
    config = c_void_p(rd.rd_kafka_conf_new())
    assert not rd.rd_kafka_conf_set(config, b"bootstrap.servers", bootstrap_servers.encode(), error, c_size_t(512))
    producer = c_void_p(rd.rd_kafka_new(PRODUCER, config, error, c_size_t(512)))
    headers = c_void_p(rd.rd_kafka_headers_new(c_size_t(1)))
    assert not rd.rd_kafka_header_add(headers, header, c_ssize_t(len(header)), b"content", c_ssize_t(7))
    assert not rd.rd_kafka_producev(
        producer, TOPIC, c_char_p(topic.encode()), PARTITION, c_int32(0),
        VALUE, c_char_p(value), c_size_t(len(value)), HEADERS, headers, END,
    )  # fmt: skip
    assert not rd.rd_kafka_flush(producer, FLUSH_MS)
    rd.rd_kafka_destroy(producer)


def _librdkafka() -> ctypes.CDLL:
    """The one that Python's client has brought."""
    path = next(f for f in files("confluent-kafka") or () if f.name.startswith("librdkafka"))
    library = ctypes.CDLL(str(path.locate()))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_headers_new"):
        getattr(library, name).restype = c_void_p
    return library
