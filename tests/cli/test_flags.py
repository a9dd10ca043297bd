"""A command with a parameter of `Flags` has its options, also those of `Flags` within it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated

from moneystate.cli.option import Flags, Panel, expanded, filled, flag, option

Name = Annotated[str, option("name", "A name.", Panel.run, "NAME")]
Size = Annotated[int, option("size", "A size.", Panel.run, "N")]


@dataclass(frozen=True)
class Inner(Flags):
    size: Size = 3


@dataclass(frozen=True)
class Outer(Flags):
    inner: Inner
    name: Name = "a"
    wait_for: str = flag("1s", "A wait.", Panel.run, "DURATION")


@dataclass(frozen=True)
class Settings:
    size: int
    name: str
    wait_s: float
    more: str = "more"


def command(before: int, outer: Outer, after: int = 0) -> tuple[int, Outer, int]:
    return before, outer, after


def test_a_command_has_the_options_of_its_flags_where_the_parameter_was() -> None:
    shown = inspect.signature(expanded(command)).parameters
    assert [(name, p.default) for name, p in shown.items()] == [
        ("before", inspect.Parameter.empty), ("size", 3), ("name", "a"), ("wait_for", "1s"), ("after", 0),
    ]  # fmt: skip


def test_the_field_of_a_flag_names_its_option_and_its_variable() -> None:
    declared = inspect.signature(expanded(command)).parameters["wait_for"].annotation.__metadata__[0]
    assert (declared.default, declared.envvar) == ("--wait-for", "MONEYSTATE_WAIT_FOR")
    assert Outer(Inner()).wait_for == "1s"


def test_settings_get_the_flags_of_their_names_and_what_is_given_comes_first() -> None:
    flags = Outer(Inner(5), "b")
    assert filled(Settings, flags, name="c", wait_s=1.0) == Settings(5, "c", 1.0)


def test_a_command_gets_what_its_options_make() -> None:
    assert expanded(command)(before=1, size=5, name="b", wait_for="2s", after=2) == (1, Outer(Inner(5), "b", "2s"), 2)
