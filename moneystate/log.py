"""The log of the long-running commands, on stderr: JSON lines, or short lines for a person if stderr is a terminal.

A JSON line has `time`, `level`, `service` (null where none is known) and `event`, and where they are known `batch`,
`version`, `partition` and other fields. No line has the key or value of a record, an id in it, or a secret: those who
read logs may not be those who may read the data. For the same reason a line about an exception has its type and the
places in the code, but no message: a message such as "invalid literal for int(): '...'" repeats a value.

A log that cannot be written is no reason to end a command: if the reader of stderr is gone, its lines are lost.

Processes that have not called `set_up` (Spark's workers, tests) log plain lines from level warning on, as Python does.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import traceback
from collections.abc import Iterator, MutableMapping
from enum import StrEnum
from itertools import islice
from types import TracebackType
from typing import Any, Final, NamedTuple, TextIO

import structlog
from structlog.stdlib import BoundLogger, ProcessorFormatter
from structlog.typing import Processor

from moneystate.errors import MoneystateError

Event = MutableMapping[str, Any]

OURS: Final = ("moneystate", "services", "state_tools")  # the packages that have the chosen level
LIBRDKAFKA: Final = "librdkafka"  # it has a level in its own settings
NO_FIELDS: Final = ("event", "level", "service", "exc_info")  # in a line for people
UNWRITABLE: Final = "a line of the log could not be made"
CAUSES: Final = 10  # of an error, at most: they may form a circle
# RocksDB's errors are plain exceptions; how their messages begin tells them from those of other code
ROCKSDB: Final = ("Corruption: ", "IO error: ", "Invalid argument: ", "Not implemented: ", "Resource busy: ")


class Level(StrEnum):
    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


class Settings(NamedTuple):
    """Describes how this process logs. Child processes get the same."""

    as_json: bool
    level: str
    about: dict[str, Any]  # fields of each line

    def plus(self, **about: Any) -> Settings:
        return self._replace(about={**self.about, **about})


_now: Settings | None = None
_hooks: tuple[Any, ...] = (sys.excepthook, threading.excepthook, sys.unraisablehook)  # those before `set_up`


def get_log(name: str) -> BoundLogger:
    """The logger of a module. It may be created before `set_up`."""
    log: BoundLogger = structlog.wrap_logger(
        logging.getLogger(name),
        processors=[structlog.stdlib.filter_by_level, _hand_over],
        wrapper_class=BoundLogger,
    )
    return log


def library_log(name: str) -> logging.Logger:
    """Makes a log for a library that takes a logger of Python's."""
    return logging.getLogger(name)


def set_up(level: str = Level.info, service: str | None = None, as_json: bool | None = None, **about: Any) -> None:
    """Begins to log to stderr; a second call replaces the first. `about`: fields of each line. `as_json`: by default if
    stderr is not a terminal."""
    global _now, _hooks
    end()
    _hooks = (sys.excepthook, threading.excepthook, sys.unraisablehook)
    _now = Settings(not sys.stderr.isatty() if as_json is None else as_json, level, {"service": service, **about})
    logging.captureWarnings(True)
    logging.getLogger().addHandler(_handler(_now.as_json))
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.getLogger().setLevel(max(number, logging.WARNING))
    for name in (*OURS, LIBRDKAFKA):
        logging.getLogger(name).setLevel(number)
    if _now.as_json:
        sys.excepthook, threading.excepthook, sys.unraisablehook = _failed, _thread_failed, _unraisable


def end() -> None:
    """Makes it so as if `set_up` had not been called: a process may run several commands, as in tests."""
    global _now
    if _now is None:
        return
    _now = None
    logging.captureWarnings(False)
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _Stderr)]:
        root.removeHandler(handler)
    root.setLevel(logging.WARNING)
    for name in (*OURS, LIBRDKAFKA):
        logging.getLogger(name).setLevel(logging.NOTSET)
    sys.excepthook, threading.excepthook, sys.unraisablehook = _hooks


def settings() -> Settings | None:
    return _now


def add_fields(**about: Any) -> None:
    """Fields of each line from now on, in this process and in those that it starts."""
    global _now
    if _now is not None:
        _now = _now.plus(**about)


def is_json() -> bool:
    return _now is not None and _now.as_json


def write(line: str) -> None:
    """Writes a line to stderr. If nobody reads stderr any more, all that is written to it from now on is lost,
    including the lines of libraries in C."""
    try:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
    except BrokenPipeError:
        _discard()


def open_stderr() -> None:
    """Opens a stderr that the caller has closed. Otherwise a file that is opened later has its number, and lines of
    libraries in C are written into that file."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (until the process ends)
        _discard()


def _discard() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    if nowhere != 2:
        os.close(nowhere)


def is_line(text: str) -> bool:
    """Whether the text is a line of a log in JSON."""
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(event, dict) and {"time", "level", "event"} <= event.keys()


def text_of(line: str) -> str:
    """Returns what a person reads in place of a line in JSON: level and event. Other lines are unchanged."""
    if not is_line(line):
        return line
    event = json.loads(line)
    return _text({name: event[name] for name in ("level", "event")})


def _hand_over(logger: Any, name: str, event: Event) -> Any:
    """Gives the event to Python's logging, whose handler it shares with other libraries."""
    if _now is None:
        return (_text({**event, "level": name}),), {"exc_info": event.get("exc_info")}
    return ProcessorFormatter.wrap_for_formatter(logger, name, event)


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes to what is stderr at the time: a display may have taken it over."""

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, _: TextIO) -> None: ...

    def handleError(self, record: logging.LogRecord) -> None:
        """Called where a line could not be made or written. Python would print a traceback with the line's values."""
        error = sys.exception()
        if isinstance(error, BrokenPipeError):
            _discard()
        elif error is not None and not isinstance(error, OSError):
            told = logging.LogRecord(record.name, logging.ERROR, "", 0, UNWRITABLE, (), (type(error), error, None))
            self.emit(told)


def _handler(as_json: bool) -> logging.Handler:
    for_people: list[Processor] = [
        _with_level,
        ProcessorFormatter.remove_processors_meta,
        structlog.processors.format_exc_info,
        _line,
    ]
    for_programs: list[Processor] = [
        _with_level,
        structlog.processors.TimeStamper("iso", utc=True, key="time"),
        _foreign,
        _exception,
        ProcessorFormatter.remove_processors_meta,
        _ordered,
        structlog.processors.JSONRenderer(default=str),
    ]
    handler = _Stderr()
    handler.setFormatter(ProcessorFormatter(processors=for_programs if as_json else for_people))
    return handler


def _with_level(_logger: Any, _name: str, event: Event) -> Event:
    level = event["_record"].levelname.lower()
    event["level"] = "error" if level == "critical" else level
    return event


def _foreign(_logger: Any, _name: str, event: Event) -> Event:
    """Lines of libraries say whose they are. They have the first line of the message alone, and of asyncio no
    arguments of a callback: the rest has values."""
    if not event["_from_structlog"]:
        event["logger"] = name = event["_record"].name
        event["event"] = event["event"].partition("\n")[0]
        if name == "asyncio":
            event["event"] = event["event"].partition("(")[0]
    return event


def _exception(_logger: Any, _name: str, event: Event) -> Event:
    given = event.pop("exc_info", None)
    error = given[1] if isinstance(given, tuple) else sys.exception() if given is True else given
    if isinstance(error, BaseException):
        event["exception"] = " after ".join(islice(_causes(error), CAUSES))
        event["stack"] = [f"{f.filename}:{f.lineno} {f.name}" for f in traceback.extract_tb(error.__traceback__)]
    return event


def _causes(error: BaseException | None) -> Iterator[str]:
    while error is not None:
        kind = type(error)
        # The texts of the system, of RocksDB and of this program have no value of a record.
        safe = isinstance(error, (OSError, MoneystateError)) or (kind is Exception and str(error).startswith(ROCKSDB))
        yield f"{kind.__module__}.{kind.__qualname__}" + (f": {error}" if safe else "")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _ordered(_logger: Any, _name: str, event: Event) -> Event:
    about = {} if _now is None else _now.about
    first = {name: event.pop(name) for name in ("time", "level")}
    return {**first, **about, "event": event["event"], **event}


def _line(_logger: Any, _name: str, event: Event) -> str:
    trace = event.pop("exception", "")
    text = _text(event, "NO_COLOR" not in os.environ)
    return f"{text}\n{trace}" if trace else text


def _text(event: Event, colours: bool = False) -> str:
    fields = [f" {name}={value}" for name, value in event.items() if name not in NO_FIELDS]
    level = event["level"]
    if level in ("debug", "info"):
        return f"{event['event']}{''.join(fields)}"
    shown = f"\x1b[33m{level}:\x1b[0m" if colours and level == Level.warning else f"{level}:"
    return f"{shown} {event['event']}{''.join(fields)}"


def _failed(_kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
    get_log(__name__).error("an unforeseen error", exit_code=1, exc_info=error)


def _thread_failed(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_value is not None and not isinstance(failed.exc_value, SystemExit):
        get_log(__name__).error("an unforeseen error in a thread", exc_info=failed.exc_value)


def _unraisable(failed: Any) -> None:
    """An error where no code could catch it, such as in `__del__`."""
    if failed.exc_value is not None:
        get_log(__name__).error("an unforeseen error was ignored", exc_info=failed.exc_value)
