"""Makes docs/img/demo.svg: the output of `moneystate demo`, as a terminal shows it.

.venv/bin/python scripts/record_demo.py
"""

from __future__ import annotations

import re
from pathlib import Path

from rich.console import Console

from services.enrichment.demo import runner, scenario
from services.enrichment.demo.view import View

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "img" / "demo.svg"
WIDTH = 118
FONT = re.compile(r"@font-face \{.*?\}\n", re.DOTALL)  # the picture must not fetch one


def main() -> int:
    out = Console(record=True, width=WIDTH, highlight=False, force_terminal=True)
    view = View(out=out)
    chapters = [chapter.with_service(runner.KNOWLEDGE.country) for chapter in scenario.load()]
    view.intro(chapters)
    outcome = runner.run(chapters, view)
    view.summary(outcome)
    PICTURE.write_text(FONT.sub("", out.export_svg(title="make demo", unique_id="demo")))
    return 0 if outcome.held else 1


if __name__ == "__main__":
    raise SystemExit(main())
