"""Reads and writes key groups' entries in Spark's state store: pipelined, or through the public API.

A `MapState` call costs a round trip on the state socket: 115 µs, and far more if the cores are busy. Pipelined calls,
whose replies are read afterwards, cost a fraction of that. Only this module uses PySpark's private client for it.
`PublicStores` does the same with the public calls, and `stores_of` falls back to it if the private parts are not those
of PySpark 4.2.

A state variable's calls refer to the key that was set last. PySpark sets it before it hands over a key's rows.
Pipelined calls can set any other key in between, so a task asks for all of its key groups at once.

The messages are those of PySpark's `StateMessage.proto`: a request is version (4 bytes, 0), length (4 bytes,
big-endian), `StateRequest`; a reply is length and `StateResponse` (statusCode = 1, errorMessage = 2, value = 3). They
are encoded by hand, because only the key and the value differ between calls.
"""

from __future__ import annotations

import pickle
import select
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

from moneystate.engine.processor import Change
from moneystate.engine.state import StateAccess

LENGTH = struct.Struct(">i")
HEADER = struct.Struct(">ii")
RECEIVE_BYTES: Final = 1 << 20

# Field numbers: StateRequest.stateVariableRequest, StateVariableRequest.mapStateCall, and of MapStateCall the calls;
# StateRequest.implicitGroupingKeyRequest and its setImplicitKey.
STATE_VARIABLE_REQUEST: Final = 3
MAP_STATE_CALL: Final = 3
GROUPING_KEY_REQUEST: Final = 4
SET_KEY: Final = 1
GET_VALUE: Final = 3
UPDATE_VALUE: Final = 5
REMOVE_KEY: Final = 9


class PipelineError(Exception):
    """The state server refused a call, or its protocol is not that of PySpark 4.2."""


class PublicAccess:
    """The public `MapState` calls, one round trip each."""

    def __init__(self, map_state: Any) -> None:
        self.map_state = map_state

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        entries = [self.map_state.getValue((key,)) for key in keys]
        return [None if entry is None else bytes(entry[0]) for entry in entries]

    def apply(self, changes: Sequence[Change]) -> None:
        for key, value in changes:
            if value is None:
                self.map_state.removeKey((key,))
            else:
                self.map_state.updateValue((key,), (value,))

    def scan(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        for key, value in self.map_state.iterator():
            if bytes(key[0]).startswith(prefix):
                yield bytes(key[0]), bytes(value[0])


class PublicStores:
    """The stores of key groups through the public calls: only the store of the current key."""

    together = False

    def __init__(self, map_state: Any) -> None:
        self.access = PublicAccess(map_state)

    def store(self, key: int) -> StateAccess:
        return self.access

    def get_of_each(self, keys: Sequence[int], entry: bytes) -> list[bytes | None]:
        return [self.access.get_many([entry])[0] for _ in keys]

    def apply_to_each(self, changes: Sequence[tuple[int, Sequence[Change]]]) -> None:
        for _, mine in changes:
            self.access.apply(mine)


class PipelinedStores:
    """The stores of all key groups of the task, over its state socket."""

    together = True

    def __init__(self, pipe: Pipe, public: PublicAccess) -> None:
        self.pipe = pipe
        self.public = public

    def store(self, key: int) -> StateAccess:
        return PipelinedAccess(self.pipe, self.public, key)

    def get_of_each(self, keys: Sequence[int], entry: bytes) -> list[bytes | None]:
        """An entry of each key group. `keys`: Spark's keys of the key groups."""
        requests: list[bytes] = []
        for key in keys:
            requests += [self.pipe.set_key(key), self.pipe.get(entry)]
        return [_entry(value) for value in self.pipe.exchange(requests)[1::2]]

    def apply_to_each(self, changes: Sequence[tuple[int, Sequence[Change]]]) -> None:
        requests: list[bytes] = []
        for key, mine in changes:
            requests.append(self.pipe.set_key(key))
            requests += [self.pipe.put(entry, value) for entry, value in mine]
        self.pipe.exchange(requests)


class PipelinedAccess:
    """One key group's entries. A scan uses the public call: it needs few requests, because Spark sends many entries for
    each."""

    def __init__(self, pipe: Pipe, public: PublicAccess, key: int) -> None:
        self.pipe = pipe
        self.public = public
        self.set_key = pipe.set_key(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        if not keys:
            return []
        return [_entry(value) for value in self.pipe.exchange([self.set_key, *map(self.pipe.get, keys)])[1:]]

    def apply(self, changes: Sequence[Change]) -> None:
        if changes:
            self.pipe.exchange([self.set_key, *[self.pipe.put(key, value) for key, value in changes]])

    def scan(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        self.pipe.exchange([self.set_key])
        return self.public.scan(prefix)


class Pipe:
    """Sends many requests on the state socket before it reads the first reply."""

    def __init__(self, connection: socket.socket, state_name: str) -> None:
        self.connection = connection
        self.name = _field(1, state_name.encode())

    def set_key(self, key: int) -> bytes:
        """The request that sets the key for the following requests."""
        return _framed(_field(GROUPING_KEY_REQUEST, _field(SET_KEY, _field(1, _row(key)))))

    def get(self, key: bytes) -> bytes:
        return self._request(GET_VALUE, _field(1, _row(key)))

    def put(self, key: bytes, value: bytes | None) -> bytes:
        if value is None:
            return self._request(REMOVE_KEY, _field(1, _row(key)))
        return self._request(UPDATE_VALUE, _field(1, _row(key)) + _field(2, _row(value)))

    def _request(self, call: int, body: bytes) -> bytes:
        return _framed(_field(STATE_VARIABLE_REQUEST, _field(MAP_STATE_CALL, self.name + _field(call, body))))

    def exchange(self, requests: list[bytes]) -> list[bytes]:
        """Sends all requests and reads as many replies, as the socket allows, so that neither side waits for the
        other."""
        outgoing = memoryview(b"".join(requests))
        incoming = bytearray()
        values: list[bytes] = []
        pos = 0
        connection = self.connection
        connection.setblocking(False)
        try:
            while len(values) < len(requests):
                wanted = [connection] if outgoing else []
                readable, writable, _ = select.select([connection], wanted, [])
                if writable:
                    outgoing = outgoing[connection.send(outgoing[:RECEIVE_BYTES]) :]
                if readable:
                    received = connection.recv(RECEIVE_BYTES)
                    if not received:
                        raise PipelineError("the state server closed the connection")
                    incoming += received
                    pos = _take_replies(incoming, pos, values)
                    if pos > RECEIVE_BYTES:
                        del incoming[:pos]
                        pos = 0
        finally:
            connection.setblocking(True)
        return values


def _take_replies(incoming: bytearray, pos: int, values: list[bytes]) -> int:
    """Moves the complete replies from position `pos` to `values`. Returns the position after them."""
    available = len(incoming)
    while available - pos >= 4:
        (length,) = LENGTH.unpack_from(incoming, pos)
        end = pos + 4 + length
        if available < end:
            break
        values.append(_reply(bytes(incoming[pos + 4 : end])))
        pos = end
    return pos


def _reply(message: bytes) -> bytes:
    """The value of a StateResponse. Status 0 is left out of the message, as protobuf leaves out zeros."""
    pos = 0
    status, value, error = 0, b"", b""
    while pos < len(message):
        tag = message[pos]
        number, pos = _varint(message, pos + 1)
        if tag == 0x08:
            status = number
            continue
        content = message[pos : pos + number]
        pos += number
        if tag == 0x1A:
            value = content
        else:
            error = content
    if status != 0:
        raise PipelineError(f"the state server answered {status}: {error.decode(errors='replace')}")
    return value


def _entry(value: bytes) -> bytes | None:
    if not value:
        return None
    return bytes(pickle.loads(value)[0])


def _row(content: bytes | int) -> bytes:
    return pickle.dumps((content,), 5)


def _framed(message: bytes) -> bytes:
    return HEADER.pack(0, len(message)) + message


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited protobuf field."""
    return _encode_varint(number << 3 | 2) + _encode_varint(len(content)) + content


def _encode_varint(n: int) -> bytes:
    if n < 0x80:
        return bytes((n,))
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def _varint(message: bytes, pos: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        b = message[pos]
        pos += 1
        result |= (b & 0x7F) << shift
        if b < 0x80:
            return result, pos
        shift += 7


def stores_of(map_state: Any, pipelined: bool = True) -> PipelinedStores | PublicStores:
    """The pipelined stores if PySpark's private client is the known one, otherwise the public ones."""
    client = getattr(map_state, "_mapStateClient", None)
    api = getattr(client, "_stateful_processor_api_client", None)
    connection = getattr(api, "_client_socket", None)
    name = getattr(map_state, "_stateName", None)
    if pipelined and isinstance(connection, socket.socket) and isinstance(name, str):
        return PipelinedStores(Pipe(connection, name), PublicAccess(map_state))
    return PublicStores(map_state)
