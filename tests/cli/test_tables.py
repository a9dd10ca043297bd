"""A table fits the terminal, or its rows become lists of fields: no id is cut off or broken."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from moneystate.cli.facts_view import field_text, print_differences
from moneystate.cli.tables import print_table
from moneystate.savepoint.compare import Difference
from tests.enrichment.jobs import STATE

ID = "6f1c2d3e-" * 9
ROWS = [[ID, "12"], ["b", "3"]]


def printed(width: int, terminal: bool) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None)
    print_table(console, ["user", "n"], ROWS, "users", right=["n"])
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


def test_a_table_that_fits_is_a_table() -> None:
    lines = printed(120, terminal=True).splitlines()
    assert lines[0].strip() == "users"
    assert [line.split() for line in lines[1:]] == [["user", "n"], [ID, "12"], ["b", "3"]]


@pytest.mark.parametrize("width", [40, 80])
def test_a_table_that_does_not_fit_becomes_a_list_of_fields(width: int) -> None:
    lines = printed(width, terminal=True).splitlines()
    assert lines == ["users", f"user  {ID}", "n     12", "----", "user  b", "n     3"]


def test_a_pipe_has_no_width() -> None:
    assert [line.split() for line in printed(20, terminal=False).splitlines()][1:] == [["user", "n"], *ROWS]


def test_ids_are_whole_and_long_values_are_cut_off() -> None:
    console = Console(file=io.StringIO(), width=60, force_terminal=True, color_system=None, soft_wrap=True)
    difference = Difference("other", ID.encode(), (ID.encode(),), None, (ID.encode(),))
    print_differences(console, STATE, [difference], "one", "other")
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.splitlines() == [f"key {ID}", f"  other {ID}: only in other: {field_text(ID.encode())}"]
    assert field_text(ID.encode()).endswith("…")
