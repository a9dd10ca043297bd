"""Templates, and what they can do with values: all text is escaped, and characters that reorder it are made visible."""

from __future__ import annotations

import json
import re
import shlex
import time
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from moneystate.console.faces import Graph
from moneystate.engine.items import END_OF_TIME
from moneystate.records.iso_time import from_ms
from moneystate.serving.arguments import version_text

# Characters that reorder text, that have no look of their own, or that no page can have. Joiners of letters and of
# emoji (U+200C, U+200D) are text.
REORDERING: Final = re.compile(
    "[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("moneystate.console"), autoescape=select_autoescape(default=True),
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= {
        "visible": visible, "number": number, "time": shown_time, "age": age, "version": version_text, "bytes": size,
        "graph_json": graph_json, "path": lambda text: quote(str(text), safe=""), "words": shlex.join,
    }  # fmt: skip
    made.globals |= {"link": link, "now_ms": lambda: time.time_ns() // 1_000_000}
    return made


def visible(text: Any) -> str:
    """Characters that would reorder or hide text, as their code points."""
    return REORDERING.sub(lambda match: f"\u27e8U+{ord(match[0]):04X}\u27e9", str(text))


def number(value: int) -> str:
    return f"{value:,}".replace(",", "\u2009")


def shown_time(time_ms: int | None) -> str:
    if time_ms is None:
        return "-"
    return "the end" if time_ms >= END_OF_TIME else from_ms(time_ms)


def age(ms: int | None) -> str:
    """Shows a duration with one unit."""
    if ms is None:
        return "-"
    if abs(ms) >= END_OF_TIME // 2:
        return "-"
    for unit, name in UNITS:
        if abs(ms) >= unit:
            return f"{ms / unit:.1f} {name}" if unit == 1_000 else f"{ms // unit} {name}"
    return f"{ms} ms"


def size(count: int) -> str:
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B"


def link(path: str, **given: Any) -> str:
    """A path with a query string of what is not empty."""
    chosen = {name: value for name, value in given.items() if value not in ("", None)}
    return f"{path}?{urlencode(chosen)}" if chosen else path


def graph_json(graph: Graph) -> str:
    """Returns what the script that draws it reads."""
    return json.dumps({
        "times": [time_ms / 1_000 for time_ms in graph.times],
        "lines": [{"label": line.label, "values": list(line.values), "role": line.role} for line in graph.lines],
        "unit": graph.unit, "zone": graph.zone, "zoom": list(graph.zoom or ()),
        "gaps": [[start / 1_000, end / 1_000] for start, end in graph.gaps],
    })  # fmt: skip
