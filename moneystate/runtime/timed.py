"""Sorts services that are connected by timed streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moneystate.api.service import Service
from moneystate.engine.inputs import matches
from moneystate.errors import ServiceError


def in_order(services: Sequence[Service[Any]]) -> list[Service[Any]]:
    """Sorts services: writers before readers, timed streams first. Raises ServiceError for a cycle of timed streams,
    in which time could not advance, and for a timed input whose writer does not declare it timed."""
    remaining, ordered = list(services), []
    for writer in services:
        for reader in services:
            _check_timed(writer, reader)
    while remaining:
        ready = [s for s in remaining if not any(_reads(s, other, False) for other in remaining if other is not s)]
        ready = ready or [
            s for s in remaining if not any(_reads(s, other, True) for other in remaining if other is not s)
        ]
        if not ready:
            names = ", ".join(service.name for service in remaining)
            raise ServiceError(
                f"services {names}: a cycle of timed streams.",
                "make one of the streams an ordinary topic, and read it with time=.",
            )
        ordered.append(ready[0])
        remaining.remove(ready[0])
    return ordered


def _reads(reader: Service[Any], writer: Service[Any], only_timed: bool) -> bool:
    written = {o.topic for o in writer.outputs if o.timed or not only_timed}
    read = [i.topic for i in reader.inputs if i.timed or not only_timed]
    return any(matches(topic, name) for topic in read for name in written)


def _check_timed(writer: Service[Any], reader: Service[Any]) -> None:
    plain = {o.topic for o in writer.outputs if not o.timed}
    for declared in reader.inputs:
        if declared.timed and declared.topic in plain:
            reader.fail(
                f"{declared!r}: timed, but {writer.name} does not declare it timed.", "add timed=True to that output."
            )
