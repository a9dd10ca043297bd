"""The text of a JSON number. In a module of its own: mypyc does not compile a class that is a `str`."""

from __future__ import annotations


class Number(str):
    """A number as it is written."""

    __slots__ = ()
