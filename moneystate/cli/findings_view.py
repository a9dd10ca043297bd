"""How the commands named `doctor` show what they find."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import typer
from rich.console import Console
from rich.text import Text

from moneystate.kafka.findings import Finding, Level

ERRORS_EXIT_CODE: Final = 1
COLOURS: Final = {Level.ok: "green", Level.warning: "yellow", Level.error: "red"}
LONGEST_LEVEL: Final = max(map(len, Level))


def show_findings(console: Console, findings: Iterable[Finding]) -> None:
    for finding in findings:
        do = f" Do: {finding.do}" if finding.do else ""
        level = Text(f"{finding.level:<{LONGEST_LEVEL}}", COLOURS[finding.level])
        console.print(Text.assemble(level, f"  {finding.about}: {finding.text}{do}"), soft_wrap=True)


def end_with_errors(findings: Iterable[Finding]) -> None:
    """Ends the command with code 1 if there are errors."""
    if any(finding.level is Level.error for finding in findings):
        raise typer.Exit(ERRORS_EXIT_CODE)
