"""Functions of an index in a module of their own."""

from __future__ import annotations

from typing import Any


def initial_of(customer: Any) -> str:
    return str(customer.name[:1])


def count_of(customer: Any) -> int:
    return int(customer.orders)


def text_of(customer: Any) -> str:
    return str(customer)
