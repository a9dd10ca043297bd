from moneystate.state.v1 import header_pb2 as _header_pb2
from moneystate.query.v1 import user_pb2 as _user_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WatchUserRequest(_message.Message):
    __slots__ = ("user_id", "after")
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    user_id: str
    after: _header_pb2.Version
    def __init__(self, user_id: _Optional[str] = ..., after: _Optional[_Union[_header_pb2.Version, _Mapping]] = ...) -> None: ...

class WatchUserResponse(_message.Message):
    __slots__ = ("header", "change")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    change: WatchedChange
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., change: _Optional[_Union[WatchedChange, _Mapping]] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("after",)
    AFTER_FIELD_NUMBER: _ClassVar[int]
    after: _header_pb2.Version
    def __init__(self, after: _Optional[_Union[_header_pb2.Version, _Mapping]] = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ("header", "changes", "more")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    changes: _containers.RepeatedCompositeFieldContainer[WatchedChange]
    more: bool
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., changes: _Optional[_Iterable[_Union[WatchedChange, _Mapping]]] = ..., more: bool = ...) -> None: ...

class WatchedChange(_message.Message):
    __slots__ = ("user_id", "user")
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    user_id: str
    user: _user_pb2.User
    def __init__(self, user_id: _Optional[str] = ..., user: _Optional[_Union[_user_pb2.User, _Mapping]] = ...) -> None: ...
