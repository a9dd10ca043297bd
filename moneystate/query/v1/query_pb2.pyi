from moneystate.state.v1 import header_pb2 as _header_pb2
from moneystate.query.v1 import user_pb2 as _user_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class UserField(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    USER_FIELD_UNSPECIFIED: _ClassVar[UserField]
    USER_FIELD_BIRTH_YEAR: _ClassVar[UserField]
    USER_FIELD_RESIDENT_COUNTRY_CODE: _ClassVar[UserField]

class MoneyWhere(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MONEY_WHERE_UNSPECIFIED: _ClassVar[MoneyWhere]
    MONEY_WHERE_WAITING: _ClassVar[MoneyWhere]
    MONEY_WHERE_LOOKING_UP: _ClassVar[MoneyWhere]
    MONEY_WHERE_SEEN: _ClassVar[MoneyWhere]
    MONEY_WHERE_PUT_OUT: _ClassVar[MoneyWhere]

class OriginRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ORIGIN_ROLE_UNSPECIFIED: _ClassVar[OriginRole]
    ORIGIN_ROLE_MONEY: _ClassVar[OriginRole]
    ORIGIN_ROLE_SESSION: _ClassVar[OriginRole]
    ORIGIN_ROLE_BIRTH_YEAR: _ClassVar[OriginRole]
    ORIGIN_ROLE_RESIDENT_COUNTRY_CODE: _ClassVar[OriginRole]
    ORIGIN_ROLE_FIRST_OF_TYPE: _ClassVar[OriginRole]
    ORIGIN_ROLE_REPLY: _ClassVar[OriginRole]
USER_FIELD_UNSPECIFIED: UserField
USER_FIELD_BIRTH_YEAR: UserField
USER_FIELD_RESIDENT_COUNTRY_CODE: UserField
MONEY_WHERE_UNSPECIFIED: MoneyWhere
MONEY_WHERE_WAITING: MoneyWhere
MONEY_WHERE_LOOKING_UP: MoneyWhere
MONEY_WHERE_SEEN: MoneyWhere
MONEY_WHERE_PUT_OUT: MoneyWhere
ORIGIN_ROLE_UNSPECIFIED: OriginRole
ORIGIN_ROLE_MONEY: OriginRole
ORIGIN_ROLE_SESSION: OriginRole
ORIGIN_ROLE_BIRTH_YEAR: OriginRole
ORIGIN_ROLE_RESIDENT_COUNTRY_CODE: OriginRole
ORIGIN_ROLE_FIRST_OF_TYPE: OriginRole
ORIGIN_ROLE_REPLY: OriginRole

class GetUserRequest(_message.Message):
    __slots__ = ("user_id", "at")
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    user_id: str
    at: _header_pb2.At
    def __init__(self, user_id: _Optional[str] = ..., at: _Optional[_Union[_header_pb2.At, _Mapping]] = ...) -> None: ...

class GetUserResponse(_message.Message):
    __slots__ = ("header", "user")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    user: _user_pb2.User
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., user: _Optional[_Union[_user_pb2.User, _Mapping]] = ...) -> None: ...

class BatchGetUsersRequest(_message.Message):
    __slots__ = ("user_ids", "at")
    USER_IDS_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    user_ids: _containers.RepeatedScalarFieldContainer[str]
    at: _header_pb2.At
    def __init__(self, user_ids: _Optional[_Iterable[str]] = ..., at: _Optional[_Union[_header_pb2.At, _Mapping]] = ...) -> None: ...

class BatchGetUsersResponse(_message.Message):
    __slots__ = ("header", "results", "unanswered_user_ids")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    UNANSWERED_USER_IDS_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    results: _containers.RepeatedCompositeFieldContainer[UserResult]
    unanswered_user_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., results: _Optional[_Iterable[_Union[UserResult, _Mapping]]] = ..., unanswered_user_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class UserResult(_message.Message):
    __slots__ = ("user_id", "user")
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    user_id: str
    user: _user_pb2.User
    def __init__(self, user_id: _Optional[str] = ..., user: _Optional[_Union[_user_pb2.User, _Mapping]] = ...) -> None: ...

class GetSessionRequest(_message.Message):
    __slots__ = ("session_id", "at")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    at: _header_pb2.At
    def __init__(self, session_id: _Optional[str] = ..., at: _Optional[_Union[_header_pb2.At, _Mapping]] = ...) -> None: ...

class GetSessionResponse(_message.Message):
    __slots__ = ("header", "user_id", "session")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    user_id: str
    session: _user_pb2.Session
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., user_id: _Optional[str] = ..., session: _Optional[_Union[_user_pb2.Session, _Mapping]] = ...) -> None: ...

class ListUsersRequest(_message.Message):
    __slots__ = ("prefix", "start", "end", "resident_country_code", "at", "page_size", "page_token")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_COUNTRY_CODE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    start: str
    end: str
    resident_country_code: str
    at: _header_pb2.At
    page_size: int
    page_token: str
    def __init__(self, prefix: _Optional[str] = ..., start: _Optional[str] = ..., end: _Optional[str] = ..., resident_country_code: _Optional[str] = ..., at: _Optional[_Union[_header_pb2.At, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListUsersResponse(_message.Message):
    __slots__ = ("header", "users", "next_page_token")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    users: _containers.RepeatedCompositeFieldContainer[_user_pb2.User]
    next_page_token: str
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., users: _Optional[_Iterable[_Union[_user_pb2.User, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListPendingRequest(_message.Message):
    __slots__ = ("reason", "at", "page_size", "page_token")
    REASON_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    reason: _user_pb2.PendingReason
    at: _header_pb2.At
    page_size: int
    page_token: str
    def __init__(self, reason: _Optional[_Union[_user_pb2.PendingReason, str]] = ..., at: _Optional[_Union[_header_pb2.At, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListPendingResponse(_message.Message):
    __slots__ = ("header", "pending", "next_page_token")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    pending: _containers.RepeatedCompositeFieldContainer[_user_pb2.PendingMoney]
    next_page_token: str
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., pending: _Optional[_Iterable[_Union[_user_pb2.PendingMoney, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListEntriesRequest(_message.Message):
    __slots__ = ("prefix", "at", "page_size", "page_token")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    at: _header_pb2.At
    page_size: int
    page_token: str
    def __init__(self, prefix: _Optional[str] = ..., at: _Optional[_Union[_header_pb2.At, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListEntriesResponse(_message.Message):
    __slots__ = ("header", "entries", "next_page_token")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    entries: _containers.RepeatedCompositeFieldContainer[Entry]
    next_page_token: str
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., entries: _Optional[_Iterable[_Union[Entry, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Entry(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("money_id", "user_field", "at")
    MONEY_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    money_id: str
    user_field: UserFieldOf
    at: _header_pb2.At
    def __init__(self, money_id: _Optional[str] = ..., user_field: _Optional[_Union[UserFieldOf, _Mapping]] = ..., at: _Optional[_Union[_header_pb2.At, _Mapping]] = ...) -> None: ...

class UserFieldOf(_message.Message):
    __slots__ = ("user_id", "field")
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    user_id: str
    field: UserField
    def __init__(self, user_id: _Optional[str] = ..., field: _Optional[_Union[UserField, str]] = ...) -> None: ...

class ExplainResponse(_message.Message):
    __slots__ = ("header", "money", "user_field")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    MONEY_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    money: MoneyExplained
    user_field: _user_pb2.PersonalText
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., money: _Optional[_Union[MoneyExplained, _Mapping]] = ..., user_field: _Optional[_Union[_user_pb2.PersonalText, _Mapping]] = ...) -> None: ...

class MoneyExplained(_message.Message):
    __slots__ = ("money_id", "user_id", "where", "pending", "enriched", "origins")
    MONEY_ID_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    ENRICHED_FIELD_NUMBER: _ClassVar[int]
    ORIGINS_FIELD_NUMBER: _ClassVar[int]
    money_id: str
    user_id: str
    where: MoneyWhere
    pending: _user_pb2.PendingMoney
    enriched: _header_pb2.Source
    origins: _containers.RepeatedCompositeFieldContainer[Origin]
    def __init__(self, money_id: _Optional[str] = ..., user_id: _Optional[str] = ..., where: _Optional[_Union[MoneyWhere, str]] = ..., pending: _Optional[_Union[_user_pb2.PendingMoney, _Mapping]] = ..., enriched: _Optional[_Union[_header_pb2.Source, _Mapping]] = ..., origins: _Optional[_Iterable[_Union[Origin, _Mapping]]] = ...) -> None: ...

class Origin(_message.Message):
    __slots__ = ("role", "source")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    role: OriginRole
    source: _header_pb2.Source
    def __init__(self, role: _Optional[_Union[OriginRole, str]] = ..., source: _Optional[_Union[_header_pb2.Source, _Mapping]] = ...) -> None: ...

class DiffUserRequest(_message.Message):
    __slots__ = ("user_id", "to")
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    user_id: str
    to: _header_pb2.At
    def __init__(self, user_id: _Optional[str] = ..., to: _Optional[_Union[_header_pb2.At, _Mapping]] = ..., **kwargs) -> None: ...

class DiffUserResponse(_message.Message):
    __slots__ = ("header", "change")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    change: UserChange
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., change: _Optional[_Union[UserChange, _Mapping]] = ..., **kwargs) -> None: ...

class UserChange(_message.Message):
    __slots__ = ("user_id", "before", "after")
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    user_id: str
    before: _user_pb2.User
    after: _user_pb2.User
    def __init__(self, user_id: _Optional[str] = ..., before: _Optional[_Union[_user_pb2.User, _Mapping]] = ..., after: _Optional[_Union[_user_pb2.User, _Mapping]] = ...) -> None: ...

class DiffRequest(_message.Message):
    __slots__ = ("to", "page_size", "page_token")
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    to: _header_pb2.At
    page_size: int
    page_token: str
    def __init__(self, to: _Optional[_Union[_header_pb2.At, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., **kwargs) -> None: ...

class DiffResponse(_message.Message):
    __slots__ = ("header", "changes", "next_page_token")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    changes: _containers.RepeatedCompositeFieldContainer[UserChange]
    next_page_token: str
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., changes: _Optional[_Iterable[_Union[UserChange, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., **kwargs) -> None: ...
