from moneystate.state.v1 import header_pb2 as _header_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PendingReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PENDING_REASON_UNSPECIFIED: _ClassVar[PendingReason]
    PENDING_REASON_WAITING_FOR_SESSION: _ClassVar[PendingReason]
    PENDING_REASON_LOOKUP_LATE: _ClassVar[PendingReason]
    PENDING_REASON_LOOKUP_OLD: _ClassVar[PendingReason]
    PENDING_REASON_LOOKUP_SESSION_MISSING: _ClassVar[PendingReason]

class LookupOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOOKUP_OUTCOME_UNSPECIFIED: _ClassVar[LookupOutcome]
    LOOKUP_OUTCOME_FOUND: _ClassVar[LookupOutcome]
    LOOKUP_OUTCOME_NOT_FOUND: _ClassVar[LookupOutcome]
    LOOKUP_OUTCOME_FAILED: _ClassVar[LookupOutcome]
PENDING_REASON_UNSPECIFIED: PendingReason
PENDING_REASON_WAITING_FOR_SESSION: PendingReason
PENDING_REASON_LOOKUP_LATE: PendingReason
PENDING_REASON_LOOKUP_OLD: PendingReason
PENDING_REASON_LOOKUP_SESSION_MISSING: PendingReason
LOOKUP_OUTCOME_UNSPECIFIED: LookupOutcome
LOOKUP_OUTCOME_FOUND: LookupOutcome
LOOKUP_OUTCOME_NOT_FOUND: LookupOutcome
LOOKUP_OUTCOME_FAILED: LookupOutcome

class PersonalText(_message.Message):
    __slots__ = ("value", "masked", "source")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    MASKED_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    value: str
    masked: bool
    source: _header_pb2.Source
    def __init__(self, value: _Optional[str] = ..., masked: bool = ..., source: _Optional[_Union[_header_pb2.Source, _Mapping]] = ...) -> None: ...

class User(_message.Message):
    __slots__ = ("user_id", "birth_year", "resident_country_code", "money_types", "sessions", "seen_money", "waiting", "looking_up", "replies", "schema_versions")
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    BIRTH_YEAR_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_COUNTRY_CODE_FIELD_NUMBER: _ClassVar[int]
    MONEY_TYPES_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    SEEN_MONEY_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    LOOKING_UP_FIELD_NUMBER: _ClassVar[int]
    REPLIES_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    user_id: str
    birth_year: PersonalText
    resident_country_code: PersonalText
    money_types: _containers.RepeatedCompositeFieldContainer[MoneyType]
    sessions: _containers.RepeatedCompositeFieldContainer[Session]
    seen_money: _containers.RepeatedCompositeFieldContainer[SeenMoney]
    waiting: _containers.RepeatedCompositeFieldContainer[PendingMoney]
    looking_up: _containers.RepeatedCompositeFieldContainer[PendingMoney]
    replies: _containers.RepeatedCompositeFieldContainer[KeptReply]
    schema_versions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, user_id: _Optional[str] = ..., birth_year: _Optional[_Union[PersonalText, _Mapping]] = ..., resident_country_code: _Optional[_Union[PersonalText, _Mapping]] = ..., money_types: _Optional[_Iterable[_Union[MoneyType, _Mapping]]] = ..., sessions: _Optional[_Iterable[_Union[Session, _Mapping]]] = ..., seen_money: _Optional[_Iterable[_Union[SeenMoney, _Mapping]]] = ..., waiting: _Optional[_Iterable[_Union[PendingMoney, _Mapping]]] = ..., looking_up: _Optional[_Iterable[_Union[PendingMoney, _Mapping]]] = ..., replies: _Optional[_Iterable[_Union[KeptReply, _Mapping]]] = ..., schema_versions: _Optional[_Iterable[int]] = ...) -> None: ...

class MoneyType(_message.Message):
    __slots__ = ("type", "source")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    type: str
    source: _header_pb2.Source
    def __init__(self, type: _Optional[str] = ..., source: _Optional[_Union[_header_pb2.Source, _Mapping]] = ...) -> None: ...

class Session(_message.Message):
    __slots__ = ("session_id", "client_country_code", "expires_ms", "source")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_COUNTRY_CODE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    client_country_code: PersonalText
    expires_ms: int
    source: _header_pb2.Source
    def __init__(self, session_id: _Optional[str] = ..., client_country_code: _Optional[_Union[PersonalText, _Mapping]] = ..., expires_ms: _Optional[int] = ..., source: _Optional[_Union[_header_pb2.Source, _Mapping]] = ...) -> None: ...

class SeenMoney(_message.Message):
    __slots__ = ("money_id", "seen_at_ms", "source")
    MONEY_ID_FIELD_NUMBER: _ClassVar[int]
    SEEN_AT_MS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    money_id: str
    seen_at_ms: int
    source: _header_pb2.Source
    def __init__(self, money_id: _Optional[str] = ..., seen_at_ms: _Optional[int] = ..., source: _Optional[_Union[_header_pb2.Source, _Mapping]] = ...) -> None: ...

class PendingMoney(_message.Message):
    __slots__ = ("user_id", "money_id", "session_id", "reason", "order_time_ms", "requested_at_ms", "first_occurrence", "amount", "currency", "money_type", "birth_year", "resident_country_code", "source")
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    MONEY_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ORDER_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    FIRST_OCCURRENCE_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    CURRENCY_FIELD_NUMBER: _ClassVar[int]
    MONEY_TYPE_FIELD_NUMBER: _ClassVar[int]
    BIRTH_YEAR_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_COUNTRY_CODE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    user_id: str
    money_id: str
    session_id: str
    reason: PendingReason
    order_time_ms: int
    requested_at_ms: int
    first_occurrence: bool
    amount: str
    currency: str
    money_type: str
    birth_year: PersonalText
    resident_country_code: PersonalText
    source: _header_pb2.Source
    def __init__(self, user_id: _Optional[str] = ..., money_id: _Optional[str] = ..., session_id: _Optional[str] = ..., reason: _Optional[_Union[PendingReason, str]] = ..., order_time_ms: _Optional[int] = ..., requested_at_ms: _Optional[int] = ..., first_occurrence: bool = ..., amount: _Optional[str] = ..., currency: _Optional[str] = ..., money_type: _Optional[str] = ..., birth_year: _Optional[_Union[PersonalText, _Mapping]] = ..., resident_country_code: _Optional[_Union[PersonalText, _Mapping]] = ..., source: _Optional[_Union[_header_pb2.Source, _Mapping]] = ...) -> None: ...

class KeptReply(_message.Message):
    __slots__ = ("money_id", "requested_at_ms", "outcome", "client_country_code", "source")
    MONEY_ID_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    CLIENT_COUNTRY_CODE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    money_id: str
    requested_at_ms: int
    outcome: LookupOutcome
    client_country_code: PersonalText
    source: _header_pb2.Source
    def __init__(self, money_id: _Optional[str] = ..., requested_at_ms: _Optional[int] = ..., outcome: _Optional[_Union[LookupOutcome, str]] = ..., client_country_code: _Optional[_Union[PersonalText, _Mapping]] = ..., source: _Optional[_Union[_header_pb2.Source, _Mapping]] = ...) -> None: ...
