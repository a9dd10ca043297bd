"""The text of a JSON number. It has its own module, because mypyc does not compile subclasses of `str`."""

from __future__ import annotations


class Number(str):
    """A number as the JSON text has it."""

    __slots__ = ()
