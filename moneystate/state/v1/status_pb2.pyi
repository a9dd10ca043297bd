from moneystate.state.v1 import header_pb2 as _header_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("header", "caught_up", "oldest", "lag_records", "keys", "schema_counts", "database_bytes", "key_groups", "server_version")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CAUGHT_UP_FIELD_NUMBER: _ClassVar[int]
    OLDEST_FIELD_NUMBER: _ClassVar[int]
    LAG_RECORDS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_COUNTS_FIELD_NUMBER: _ClassVar[int]
    DATABASE_BYTES_FIELD_NUMBER: _ClassVar[int]
    KEY_GROUPS_FIELD_NUMBER: _ClassVar[int]
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    caught_up: bool
    oldest: _header_pb2.Version
    lag_records: int
    keys: int
    schema_counts: _containers.RepeatedCompositeFieldContainer[SchemaCount]
    database_bytes: int
    key_groups: int
    server_version: str
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., caught_up: bool = ..., oldest: _Optional[_Union[_header_pb2.Version, _Mapping]] = ..., lag_records: _Optional[int] = ..., keys: _Optional[int] = ..., schema_counts: _Optional[_Iterable[_Union[SchemaCount, _Mapping]]] = ..., database_bytes: _Optional[int] = ..., key_groups: _Optional[int] = ..., server_version: _Optional[str] = ...) -> None: ...

class SchemaCount(_message.Message):
    __slots__ = ("kind", "schema_version", "entries")
    KIND_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    kind: str
    schema_version: int
    entries: int
    def __init__(self, kind: _Optional[str] = ..., schema_version: _Optional[int] = ..., entries: _Optional[int] = ...) -> None: ...
