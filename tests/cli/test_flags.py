"""A command with a parameter of `Flags` has its options, also those of `Flags` within it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated

from moneystate.cli.option import Flags, Panel, expanded, option

Name = Annotated[str, option("name", "A name.", Panel.run, "NAME")]
Size = Annotated[int, option("size", "A size.", Panel.run, "N")]


@dataclass(frozen=True)
class Inner(Flags):
    size: Size = 3


@dataclass(frozen=True)
class Outer(Flags):
    inner: Inner
    name: Name = "a"


def command(before: int, outer: Outer, after: int = 0) -> tuple[int, Outer, int]:
    return before, outer, after


def test_a_command_has_the_options_of_its_flags_where_the_parameter_was() -> None:
    shown = inspect.signature(expanded(command)).parameters
    assert [(name, p.default) for name, p in shown.items()] == [
        ("before", inspect.Parameter.empty), ("size", 3), ("name", "a"), ("after", 0),
    ]  # fmt: skip


def test_a_command_gets_what_its_options_make() -> None:
    assert expanded(command)(before=1, size=5, name="b", after=2) == (1, Outer(Inner(5), "b"), 2)
