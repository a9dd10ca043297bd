"""The pages of stock in the console: levels of a pool, and what holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moneystate.console.faces import Ask, Block, Choice, Face, Rows

MOST: Final = 500


def levels(ask: Ask, given: Mapping[str, str]) -> Sequence[Block]:
    shown = ask("stock", pool=given["pool"], prefix=given["prefix"], limit=MOST)
    return [Rows("Levels", shown, "The pool has no such skus.")]


def holds(ask: Ask, given: Mapping[str, str]) -> Sequence[Block]:
    shown = ask("reservations_of_sku", pool=given["pool"], sku=given["sku"], limit=MOST)
    return [Rows("Open reservations that hold it, the oldest first", shown, "No reservation holds it.")]


FACES: Final = (
    Face(
        "levels", "Levels", "what a pool has of each sku", levels,
        (Choice("pool", "Pool"), Choice("prefix", "Sku begins with")), ("pool",), "stock",
    ),
    Face(
        "holds", "Holds", "reservations that hold a sku", holds,
        (Choice("pool", "Pool"), Choice("sku", "Sku")), ("pool", "sku"), "stock",
    ),
)  # fmt: skip
