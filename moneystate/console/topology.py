"""Which topics services read and write, by their declarations or by the broker, and a picture of one service among its
neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from moneystate.api.handles import Input, Output
from moneystate.engine.inputs import is_pattern, matches
from moneystate.errors import MoneystateError
from moneystate.runtime.reference import service_at

EVENTS, TIMED, TABLE, LETTERS = "events", "timed stream", "table", "dead letters"
READ, NAMED = "has been read", "has its name"  # what the broker tells of a service
INNER: Final = ("-commits", "-state", "-clock")  # topics between a job and itself, or its replicas
MOST_OF_PATTERN: Final = 8  # topics of a pattern that are drawn
COLUMNS: Final = 5  # writers of what it reads, what it reads, the service, what it writes, readers of that
WIDTH, HEIGHT, GAP_X, GAP_Y = 196, 44, 44, 12  # of a box, and between boxes


@dataclass(frozen=True)
class Stream:
    """A topic that a service reads or writes. `kind`: one of the constants above."""

    topic: str
    kind: str


@dataclass(frozen=True)
class Wiring:
    service: str
    reads: tuple[Stream, ...]
    writes: tuple[Stream, ...]


@dataclass(frozen=True)
class Box:
    """`x`, `y`: of its upper left corner. `about`: a second line, such as its kind and rate."""

    x: int
    y: int
    label: str
    about: str
    target: str  # path of its page
    kind: str  # service or topic


@dataclass(frozen=True)
class Arrow:
    x1: int
    y1: int
    x2: int
    y2: int


@dataclass(frozen=True)
class Picture:
    width: int
    height: int
    boxes: Sequence[Box]
    arrows: Sequence[Arrow]


def wirings_of(references: Iterable[str]) -> list[Wiring]:
    """Returns the wirings of the services whose modules can be imported here."""
    return [one for reference in references for one in _wiring(reference)]


def _wiring(reference: str) -> Iterator[Wiring]:
    try:
        service = service_at(reference)
    except MoneystateError:
        return
    reads = dict.fromkeys(Stream(one.topic, _kind_read(one)) for one in service.inputs)
    writes = dict.fromkeys(Stream(one.topic, _kind_written(one)) for one in service.outputs)
    letters = Stream(f"{service.name}-dead-letters", LETTERS)
    yield Wiring(service.name, tuple(reads), (*writes, letters))


def seen(service: str, read: Iterable[str], topics: Iterable[str], others: Iterable[str]) -> Wiring:
    """Guesses the wiring of a service whose declarations are not known here. `read`: by its job; `others`: the names of
    all services."""
    longer = tuple(f"{other}-" for other in others if other.startswith(f"{service}-"))
    named = sorted(
        topic for topic in topics
        if topic.startswith(f"{service}-") and not topic.startswith(longer) and not topic.endswith(INNER)
    )  # fmt: skip
    writes = (Stream(topic, LETTERS if topic.endswith("-dead-letters") else NAMED) for topic in named)
    return Wiring(service, tuple(Stream(topic, READ) for topic in sorted(set(read))), tuple(writes))


def _kind_read(one: Input[object]) -> str:
    return TABLE if one.table is not None else TIMED if one.timed else EVENTS


def _kind_written(one: Output[object]) -> str:
    return TIMED if one.timed else EVENTS


def resolved(wiring: Wiring, topics: Iterable[str]) -> Wiring:
    """Replaces patterns with the topics that are there."""
    there = list(topics)
    reads = tuple(
        Stream(topic, one.kind) for one in wiring.reads for topic in ([one.topic] if not is_pattern(one.topic)
        else [name for name in there if matches(one.topic, name)][:MOST_OF_PATTERN] or [one.topic])
    )  # fmt: skip
    return Wiring(wiring.service, reads, wiring.writes)


def picture_of(mine: Wiring, all_of_them: Sequence[Wiring], rates: Mapping[str, float]) -> Picture:
    """`rates`: records a second by topic, where they are known."""
    read, written = [one.topic for one in mine.reads], [one.topic for one in mine.writes]
    others = [one for one in all_of_them if one.service != mine.service]
    writers = {one.service: [w.topic for w in one.writes if w.topic in read] for one in others}
    readers = {one.service: [r.topic for r in one.reads if r.topic in written] for one in others}
    before = [name for name, topics in writers.items() if topics]
    after = [name for name, topics in readers.items() if topics]
    drawing = _Drawing(max(1, *map(len, (before, read, written, after))))
    drawing.add(0, [(name, "service", "service", _service(name)) for name in before])
    drawing.add(1, [(one.topic, _about(one, rates), "topic", _topic(one.topic)) for one in mine.reads])
    drawing.add(2, [(mine.service, "service", "service", _service(mine.service))])
    drawing.add(3, [(one.topic, _about(one, rates), "topic", _topic(one.topic)) for one in mine.writes])
    drawing.add(4, [(name, "service", "service", _service(name)) for name in after])
    lines = [(0, name, 1, topic) for name in before for topic in writers[name]]
    lines += [(1, topic, 2, mine.service) for topic in read] + [(2, mine.service, 3, topic) for topic in written]
    lines += [(3, topic, 4, name) for name in after for topic in readers[name]]
    return drawing.picture(lines)


def _about(stream: Stream, rates: Mapping[str, float]) -> str:
    rate = rates.get(stream.topic)
    return stream.kind if rate is None else f"{stream.kind}, {rate:,.1f}/s"


def _service(name: str) -> str:
    return f"/services/{quote(name, safe='')}"


def _topic(name: str) -> str:
    return f"/topics/{quote(name, safe='')}"


class _Drawing:
    def __init__(self, rows: int) -> None:
        self.height = rows * (HEIGHT + GAP_Y)
        self.boxes: dict[tuple[int, str], Box] = {}
        self.used: list[int] = []  # columns that have boxes

    def add(self, column: int, labels: Sequence[tuple[str, str, str, str]]) -> None:
        """The boxes of a column: label, second line, kind, target."""
        if not labels:
            return
        x = len(self.used) * (WIDTH + GAP_X)
        self.used.append(column)
        top = (self.height - len(labels) * (HEIGHT + GAP_Y)) // 2
        for row, (label, about, kind, target) in enumerate(labels):
            self.boxes[column, label] = Box(x, top + row * (HEIGHT + GAP_Y) + GAP_Y // 2, label, about, target, kind)

    def picture(self, lines: Sequence[tuple[int, str, int, str]]) -> Picture:
        arrows = [self._arrow(self.boxes[a, one], self.boxes[b, other]) for a, one, b, other in lines]
        width = len(self.used) * (WIDTH + GAP_X) - GAP_X
        return Picture(width, self.height, list(self.boxes.values()), arrows)

    @staticmethod
    def _arrow(one: Box, other: Box) -> Arrow:
        return Arrow(one.x + WIDTH, one.y + HEIGHT // 2, other.x, other.y + HEIGHT // 2)
