from moneystate.state.v1 import header_pb2 as _header_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ForgetUserRequest(_message.Message):
    __slots__ = ("user_id", "request_id")
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    user_id: str
    request_id: str
    def __init__(self, user_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class ForgetUserResponse(_message.Message):
    __slots__ = ("header", "request_id", "request")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    request_id: str
    request: _header_pb2.Source
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., request_id: _Optional[str] = ..., request: _Optional[_Union[_header_pb2.Source, _Mapping]] = ...) -> None: ...

class GetForgottenRequest(_message.Message):
    __slots__ = ("user_id",)
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    user_id: str
    def __init__(self, user_id: _Optional[str] = ...) -> None: ...

class GetForgottenResponse(_message.Message):
    __slots__ = ("header", "request_id", "forgotten_at_ms", "request", "requested_by")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_AT_MS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_BY_FIELD_NUMBER: _ClassVar[int]
    header: _header_pb2.Header
    request_id: str
    forgotten_at_ms: int
    request: _header_pb2.Source
    requested_by: str
    def __init__(self, header: _Optional[_Union[_header_pb2.Header, _Mapping]] = ..., request_id: _Optional[str] = ..., forgotten_at_ms: _Optional[int] = ..., request: _Optional[_Union[_header_pb2.Source, _Mapping]] = ..., requested_by: _Optional[str] = ...) -> None: ...
