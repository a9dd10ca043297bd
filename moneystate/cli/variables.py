"""Variables that look like those of flags, and that nothing reads: mistyped ones, most likely."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from typer.core import TyperGroup

from moneystate.cli.option import PREFIX

SIMILAR: Final = 0.75  # as `difflib` measures it: a letter or two apart

# read by the program, not by a flag
OF_THE_PROGRAM: Final = frozenset(
    PREFIX + name
    for name in ("CACHE", "FORK_SERVER", "IVY_SETTINGS", "POSTGRES", "PURE", "PYTHON", "PAUSE_AT", "PAUSE_FILE")
)


def warnings(root: Any, command: Any, environ: Mapping[str, str]) -> list[str]:
    """One line for each variable that no command reads. `root` is the group of all commands, `command` the one that is
    called: only for variables that it does not read, the others are looked at, and so imported."""
    given = {name for name in environ if name.startswith(PREFIX)} - OF_THE_PROGRAM
    unread = given.difference(_variables(command))
    known = set(_variables(root)) if unread else set()
    return [
        f"warning: {name}: expected the variable of a flag, found none of that name. {_advice(name, known)}"
        for name in sorted(unread - known)
    ]


def _advice(name: str, known: set[str]) -> str:
    names = sorted(one.removeprefix(PREFIX) for one in known)
    closest = get_close_matches(name.removeprefix(PREFIX), names, 1, SIMILAR)
    return (
        f"Do: set {PREFIX}{closest[0]}, if that is meant." if closest else "Do: see --help of the command, or unset it."
    )


def _variables(command: Any) -> Iterator[str]:
    if isinstance(command, TyperGroup):
        for one in command.commands.values():
            yield from _variables(one)
    else:
        yield from (str(parameter.envvar) for parameter in command.params if parameter.envvar)
