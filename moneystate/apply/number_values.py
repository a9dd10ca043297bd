"""Numbers as PostgreSQL reads them: it would round a decimal to a column's scale without an error."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from moneystate.apply.value_types import BadValue
from moneystate.records.json_number import Number

Writer = Callable[[Any], str]

_MOST_DIGITS: Final = 131_072 + 16_383  # of a numeric


def number_of(value: Any) -> Decimal:
    """The number, exactly. Raises BadValue."""
    if type(value) is bool:
        raise BadValue("not a number")
    if isinstance(value, Number):
        try:
            return Decimal(value)
        except InvalidOperation:
            raise BadValue("a number beyond all bounds") from None
    if isinstance(value, int | Decimal):
        return Decimal(value)
    if isinstance(value, float):
        return Decimal(repr(value))  # the shortest decimal that is this float
    raise BadValue("not a number")


def integer(bits: int) -> Writer:
    """A writer of whole numbers."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def write(value: Any) -> str:
        if type(value) is not int:
            value = whole(value)
        if not low <= value <= high:
            raise BadValue(f"not within {bits} bits")
        return str(int(value))

    return write


def whole(value: Any) -> int:
    if type(value) is Number and len(value) < 20 and value.lstrip("-").isdigit():
        return int(value)
    number = number_of(value)
    if not number.is_finite() or number.adjusted() > 20 or number != number.to_integral_value():
        raise BadValue("not a whole number of 64 bits")
    return int(number)


def numeric(precision: int | None, scale: int | None) -> Writer:
    def write(value: Any) -> str:
        number = number_of(value)
        if not number.is_finite():
            raise BadValue("not a finite number")
        _, digits, exponent = number.as_tuple()
        text = "".join(map(str, digits)).rstrip("0")
        if not text:
            return "0"
        places = -(int(exponent) + len(digits) - len(text))  # of the last digit other than zero
        whole = len(text) - places
        if precision is not None and places > (scale or 0):
            raise BadValue(f"more than {scale or 0} decimal places")
        if precision is not None and whole > precision - (scale or 0):
            raise BadValue(f"more than {precision - (scale or 0)} digits before the decimal point")
        if max(whole, 0) + max(places, 0) > _MOST_DIGITS:
            raise BadValue("a number beyond all bounds")
        return format(number, "f")

    return write


def double(value: Any) -> str:
    number = number_of(value)
    if number.is_nan():
        return "NaN"
    nearest = float(number)
    if number.is_infinite():
        return "Infinity" if nearest > 0 else "-Infinity"
    if not math.isfinite(nearest) or Decimal(repr(nearest)) != number:
        raise BadValue("a number that a double cannot hold exactly")
    return repr(nearest)


def single(value: Any) -> str:
    number = number_of(value)
    if not number.is_finite():
        return double(value)
    try:
        nearest: float = struct.unpack("f", struct.pack("f", float(number)))[0]
    except OverflowError:
        raise BadValue("a number that a real cannot hold") from None
    # an Avro float arrives as the double that it is; a decimal as the shortest text of such a float
    if Decimal(nearest) != number and all(Decimal(f"{nearest:.{digits}g}") != number for digits in range(6, 10)):
        raise BadValue("a number that a real cannot hold exactly")
    return f"{nearest:.9g}"
