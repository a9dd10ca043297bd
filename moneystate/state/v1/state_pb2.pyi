from moneystate.state.v1 import header_pb2 as _header_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Encoding(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENCODING_UNSPECIFIED: _ClassVar[Encoding]
    ENCODING_JSON: _ClassVar[Encoding]
    ENCODING_AVRO: _ClassVar[Encoding]
ENCODING_UNSPECIFIED: Encoding
ENCODING_JSON: Encoding
ENCODING_AVRO: Encoding

class RecordName(_message.Message):
    __slots__ = ("state", "key", "id")
    STATE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    state: str
    key: str
    id: str
    def __init__(self, state: _Optional[str] = ..., key: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class Record(_message.Message):
    __slots__ = ("name", "json", "avro", "masked", "unreadable")
    NAME_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    AVRO_FIELD_NUMBER: _ClassVar[int]
    MASKED_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    name: RecordName
    json: str
    avro: bytes
    masked: _containers.RepeatedScalarFieldContainer[str]
    unreadable: str
    def __init__(self, name: _Optional[_Union[RecordName, _Mapping]] = ..., json: _Optional[str] = ..., avro: _Optional[bytes] = ..., masked: _Optional[_Iterable[str]] = ..., unreadable: _Optional[str] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("name", "at", "encoding")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    name: RecordName
    at: _header_pb2.At
    encoding: Encoding
    def __init__(self, name: _Optional[_Union[RecordName, _Mapping]] = ..., at: _Optional[_Union[_header_pb2.At, _Mapping]] = ..., encoding: _Optional[_Union[Encoding, str]] = ...) -> None: ...

class GetResponse(_message.Message):
    __slots__ = ("header", "records", "maps")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    MAPS_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    records: _containers.RepeatedCompositeFieldContainer[Record]
    maps: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., records: _Optional[_Iterable[_Union[Record, _Mapping]]] = ..., maps: _Optional[_Iterable[str]] = ...) -> None: ...

class BatchGetRequest(_message.Message):
    __slots__ = ("names", "at", "encoding")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedCompositeFieldContainer[RecordName]
    at: _header_pb2.At
    encoding: Encoding
    def __init__(self, names: _Optional[_Iterable[_Union[RecordName, _Mapping]]] = ..., at: _Optional[_Union[_header_pb2.At, _Mapping]] = ..., encoding: _Optional[_Union[Encoding, str]] = ...) -> None: ...

class BatchGetResponse(_message.Message):
    __slots__ = ("header", "records", "unanswered")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    UNANSWERED_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    records: _containers.RepeatedCompositeFieldContainer[Record]
    unanswered: _containers.RepeatedCompositeFieldContainer[RecordName]
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., records: _Optional[_Iterable[_Union[Record, _Mapping]]] = ..., unanswered: _Optional[_Iterable[_Union[RecordName, _Mapping]]] = ...) -> None: ...

class Part(_message.Message):
    __slots__ = ("text", "number")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    text: str
    number: int
    def __init__(self, text: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class IndexValue(_message.Message):
    __slots__ = ("parts",)
    PARTS_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[Part]
    def __init__(self, parts: _Optional[_Iterable[_Union[Part, _Mapping]]] = ...) -> None: ...

class KeyRange(_message.Message):
    __slots__ = ("prefix", "start", "end")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    start: str
    end: str
    def __init__(self, prefix: _Optional[str] = ..., start: _Optional[str] = ..., end: _Optional[str] = ...) -> None: ...

class IndexRange(_message.Message):
    __slots__ = ("low", "high")
    LOW_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    low: IndexValue
    high: IndexValue
    def __init__(self, low: _Optional[_Union[IndexValue, _Mapping]] = ..., high: _Optional[_Union[IndexValue, _Mapping]] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("state", "index", "keys", "equals", "range", "at", "encoding", "page_size", "page_token")
    STATE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    EQUALS_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    state: str
    index: str
    keys: KeyRange
    equals: IndexValue
    range: IndexRange
    at: _header_pb2.At
    encoding: Encoding
    page_size: int
    page_token: str
    def __init__(self, state: _Optional[str] = ..., index: _Optional[str] = ..., keys: _Optional[_Union[KeyRange, _Mapping]] = ..., equals: _Optional[_Union[IndexValue, _Mapping]] = ..., range: _Optional[_Union[IndexRange, _Mapping]] = ..., at: _Optional[_Union[_header_pb2.At, _Mapping]] = ..., encoding: _Optional[_Union[Encoding, str]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListResponse(_message.Message):
    __slots__ = ("header", "records", "next_page_token")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    records: _containers.RepeatedCompositeFieldContainer[Record]
    next_page_token: str
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., records: _Optional[_Iterable[_Union[Record, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListEntriesRequest(_message.Message):
    __slots__ = ("map", "key", "prefix", "at", "encoding", "page_size", "page_token")
    MAP_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    map: str
    key: str
    prefix: str
    at: _header_pb2.At
    encoding: Encoding
    page_size: int
    page_token: str
    def __init__(self, map: _Optional[str] = ..., key: _Optional[str] = ..., prefix: _Optional[str] = ..., at: _Optional[_Union[_header_pb2.At, _Mapping]] = ..., encoding: _Optional[_Union[Encoding, str]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListEntriesResponse(_message.Message):
    __slots__ = ("header", "records", "next_page_token")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    records: _containers.RepeatedCompositeFieldContainer[Record]
    next_page_token: str
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., records: _Optional[_Iterable[_Union[Record, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListStoredRequest(_message.Message):
    __slots__ = ("at", "page_size", "page_token")
    AT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    at: _header_pb2.At
    page_size: int
    page_token: str
    def __init__(self, at: _Optional[_Union[_header_pb2.At, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListStoredResponse(_message.Message):
    __slots__ = ("header", "entries", "next_page_token", "rules")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    entries: _containers.RepeatedCompositeFieldContainer[StoredEntry]
    next_page_token: str
    rules: str
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., entries: _Optional[_Iterable[_Union[StoredEntry, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., rules: _Optional[str] = ...) -> None: ...

class StoredEntry(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...

class CallRequest(_message.Message):
    __slots__ = ("query", "arguments", "at", "encoding")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    query: str
    arguments: str
    at: _header_pb2.At
    encoding: Encoding
    def __init__(self, query: _Optional[str] = ..., arguments: _Optional[str] = ..., at: _Optional[_Union[_header_pb2.At, _Mapping]] = ..., encoding: _Optional[_Union[Encoding, str]] = ...) -> None: ...

class CallResponse(_message.Message):
    __slots__ = ("header", "result")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    result: Record
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., result: _Optional[_Union[Record, _Mapping]] = ...) -> None: ...

class DiffRequest(_message.Message):
    __slots__ = ("to", "encoding", "page_size", "page_token")
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    to: _header_pb2.At
    encoding: Encoding
    page_size: int
    page_token: str
    def __init__(self, to: _Optional[_Union[_header_pb2.At, _Mapping]] = ..., encoding: _Optional[_Union[Encoding, str]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., **kwargs) -> None: ...

class DiffResponse(_message.Message):
    __slots__ = ("header", "changes", "next_page_token")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    changes: _containers.RepeatedCompositeFieldContainer[Change]
    next_page_token: str
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., changes: _Optional[_Iterable[_Union[Change, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., **kwargs) -> None: ...

class Change(_message.Message):
    __slots__ = ("before", "after")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    before: Record
    after: Record
    def __init__(self, before: _Optional[_Union[Record, _Mapping]] = ..., after: _Optional[_Union[Record, _Mapping]] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("key", "after", "encoding")
    KEY_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    key: str
    after: _header_pb2.Version
    encoding: Encoding
    def __init__(self, key: _Optional[str] = ..., after: _Optional[_Union[_header_pb2.Version, _Mapping]] = ..., encoding: _Optional[_Union[Encoding, str]] = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ("header", "changes", "more")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    changes: _containers.RepeatedCompositeFieldContainer[Record]
    more: bool
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., changes: _Optional[_Iterable[_Union[Record, _Mapping]]] = ..., more: bool = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("name", "at", "encoding")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    name: RecordName
    at: _header_pb2.At
    encoding: Encoding
    def __init__(self, name: _Optional[_Union[RecordName, _Mapping]] = ..., at: _Optional[_Union[_header_pb2.At, _Mapping]] = ..., encoding: _Optional[_Union[Encoding, str]] = ...) -> None: ...

class ExplainResponse(_message.Message):
    __slots__ = ("header", "steps", "timers", "more")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    TIMERS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    steps: _containers.RepeatedCompositeFieldContainer[Step]
    timers: _containers.RepeatedCompositeFieldContainer[Timer]
    more: bool
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., steps: _Optional[_Iterable[_Union[Step, _Mapping]]] = ..., timers: _Optional[_Iterable[_Union[Timer, _Mapping]]] = ..., more: bool = ...) -> None: ...

class Step(_message.Message):
    __slots__ = ("header", "from_watermark_ms", "record")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    FROM_WATERMARK_MS_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    from_watermark_ms: int
    record: Record
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., from_watermark_ms: _Optional[int] = ..., record: _Optional[_Union[Record, _Mapping]] = ...) -> None: ...

class Timer(_message.Message):
    __slots__ = ("name", "id", "due_ms", "set_by")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    DUE_MS_FIELD_NUMBER: _ClassVar[int]
    SET_BY_FIELD_NUMBER: _ClassVar[int]
    name: str
    id: str
    due_ms: int
    set_by: _header_pb2.Source
    def __init__(self, name: _Optional[str] = ..., id: _Optional[str] = ..., due_ms: _Optional[int] = ..., set_by: _Optional[_Union[_header_pb2.Source, _Mapping]] = ...) -> None: ...

class ForgetRequest(_message.Message):
    __slots__ = ("key", "request_id")
    KEY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    key: str
    request_id: str
    def __init__(self, key: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class ForgetResponse(_message.Message):
    __slots__ = ("header", "request_id", "request")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    request_id: str
    request: _header_pb2.Source
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., request_id: _Optional[str] = ..., request: _Optional[_Union[_header_pb2.Source, _Mapping]] = ...) -> None: ...

class GetSchemaRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetSchemaResponse(_message.Message):
    __slots__ = ("service", "states", "indices", "queries")
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    INDICES_FIELD_NUMBER: _ClassVar[int]
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    service: str
    states: _containers.RepeatedCompositeFieldContainer[StateSchema]
    indices: _containers.RepeatedCompositeFieldContainer[IndexSchema]
    queries: _containers.RepeatedCompositeFieldContainer[QuerySchema]
    def __init__(self, service: _Optional[str] = ..., states: _Optional[_Iterable[_Union[StateSchema, _Mapping]]] = ..., indices: _Optional[_Iterable[_Union[IndexSchema, _Mapping]]] = ..., queries: _Optional[_Iterable[_Union[QuerySchema, _Mapping]]] = ...) -> None: ...

class StateSchema(_message.Message):
    __slots__ = ("name", "is_map", "ttl_ms", "record")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IS_MAP_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    name: str
    is_map: bool
    ttl_ms: int
    record: Schema
    def __init__(self, name: _Optional[str] = ..., is_map: bool = ..., ttl_ms: _Optional[int] = ..., record: _Optional[_Union[Schema, _Mapping]] = ...) -> None: ...

class IndexSchema(_message.Message):
    __slots__ = ("name", "state", "personal")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PERSONAL_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: str
    personal: bool
    def __init__(self, name: _Optional[str] = ..., state: _Optional[str] = ..., personal: bool = ...) -> None: ...

class QuerySchema(_message.Message):
    __slots__ = ("name", "description", "arguments", "result", "personal")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    PERSONAL_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    arguments: Schema
    result: Schema
    personal: bool
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., arguments: _Optional[_Union[Schema, _Mapping]] = ..., result: _Optional[_Union[Schema, _Mapping]] = ..., personal: bool = ...) -> None: ...

class Schema(_message.Message):
    __slots__ = ("fingerprint", "avro")
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    AVRO_FIELD_NUMBER: _ClassVar[int]
    fingerprint: str
    avro: str
    def __init__(self, fingerprint: _Optional[str] = ..., avro: _Optional[str] = ...) -> None: ...
