"""Values of Python, as Parquet and databases give them, as parsed JSON. Nothing is rounded."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from moneystate.engine.avro import Malformed
from moneystate.records import iso_time
from moneystate.records.json_number import Number
from moneystate.records.json_text import MAX_DIGITS

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)


class DocumentMaker:
    """Makes documents. `zone`: of times without one; None: they are refused."""

    def __init__(self, zone: tzinfo | None) -> None:
        self._by_type: dict[type, Callable[[Any], Any]] = {
            type(None): _same,
            str: str,
            bool: _same,
            Number: _same,
            int: Number,
            float: _double,
            Decimal: _decimal,
            datetime: lambda value: time_text(value, zone),
            date: date.isoformat,
            time: time.isoformat,
            UUID: str,
            bytes: _bytes,
            bytearray: _bytes,
            memoryview: _bytes,
            list: self._array,
            tuple: self._array,
            dict: self._object,
        }

    def value(self, value: Any) -> Any:
        """Raises Malformed."""
        kind = type(value)
        convert = self._by_type.get(kind)
        if convert is None:
            convert = next((known for base, known in self._by_type.items() if issubclass(kind, base)), None)
            if convert is None:
                raise Malformed(f"a value of the type {kind.__name__}; convert it to another type in the source")
            self._by_type[kind] = convert
        return convert(value)

    def _array(self, value: list[Any]) -> list[Any]:
        return [self.value(item) for item in value]

    def _object(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        return {str(name): self.value(item) for name, item in value.items()}


def time_text(moment: datetime, zone: tzinfo | None) -> str:
    """Returns the time in UTC with milliseconds. Further digits are dropped, as everywhere on the platform. Raises
    Malformed for a time that has no zone."""
    if moment.tzinfo is None:
        if zone is None:
            raise Malformed("a time without an offset; give --zone, or add the offset in the source")
        moment = moment.replace(tzinfo=zone)
    return iso_time.from_ms((moment - _EPOCH) // _MS)


def _same(value: Any) -> Any:
    return value


def _double(value: float) -> Number:
    if not math.isfinite(value):
        raise Malformed(f"{value}, which JSON cannot represent")
    return Number(repr(float(value)))


def _decimal(value: Decimal) -> Number:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise Malformed(f"{value}, which JSON cannot represent")
    if value.adjusted() > MAX_DIGITS or -exponent > MAX_DIGITS:
        raise Malformed(f"a number of more than {MAX_DIGITS:,} digits")
    return Number(format(value, "f"))


def _bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()
