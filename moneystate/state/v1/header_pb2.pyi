from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Version(_message.Message):
    __slots__ = ("epoch", "batch")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    epoch: str
    batch: int
    def __init__(self, epoch: _Optional[str] = ..., batch: _Optional[int] = ...) -> None: ...

class At(_message.Message):
    __slots__ = ("version", "event_time_ms")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    version: Version
    event_time_ms: int
    def __init__(self, version: _Optional[_Union[Version, _Mapping]] = ..., event_time_ms: _Optional[int] = ...) -> None: ...

class Header(_message.Message):
    __slots__ = ("version", "watermark_ms", "written_at_ms", "staleness_ms", "schema_fingerprint")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_MS_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_AT_MS_FIELD_NUMBER: _ClassVar[int]
    STALENESS_MS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    version: Version
    watermark_ms: int
    written_at_ms: int
    staleness_ms: int
    schema_fingerprint: str
    def __init__(self, version: _Optional[_Union[Version, _Mapping]] = ..., watermark_ms: _Optional[int] = ..., written_at_ms: _Optional[int] = ..., staleness_ms: _Optional[int] = ..., schema_fingerprint: _Optional[str] = ...) -> None: ...

class Source(_message.Message):
    __slots__ = ("topic", "partition", "offset", "event_time_ms")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    event_time_ms: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., event_time_ms: _Optional[int] = ...) -> None: ...
