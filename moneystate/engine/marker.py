"""Decides from the marker in Kafka what a sink task may do (docs/model.md section 5).

A marker is written in the same transaction as a batch's output. Key: application and output partition. Value: epoch,
number of the next batch, digest of the batch's end offset. Whatever happens to the checkpoint or the process, it tells
which batches this output partition has committed.

A run writes claims before its first batch, for all output partitions in one transaction. Key: application and output
partition. Value: the instance. Only the instance of the last claim may write.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from moneystate.engine.json_object import read_object

FIRST_BATCH: Final = 0
# A new checkpoint's initial state (`moneystate.kafka.publish`) is written like a batch that ends where the checkpoint
# begins.
BEFORE_FIRST_BATCH: Final = -1
CLAIM: Final = b"/claim"
FENCED: Final = b"/fenced"


class Decision(Enum):
    WRITE = "write"
    ALREADY_WRITTEN = "already written"


@dataclass(frozen=True)
class Marker:
    """Names the last batch that an output partition has committed."""

    epoch: str  # Spark's query id
    next_batch: int  # the first batch that is not written
    digest: str  # of the offset that `next_batch` starts at

    def encode(self) -> bytes:
        fields = {"version": 1, "epoch": self.epoch, "nextBatch": self.next_batch, "digest": self.digest}
        return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Claim:
    """The owner of an output partition."""

    instance: str  # identifies one run of a job
    who: str  # describes the run to people

    def encode(self) -> bytes:
        """Encodes the claim with a marker's fields, because earlier programs, which know no claims, read every record
        of the topic as a marker."""
        fields = {"version": 1, "instance": self.instance, "who": self.who}
        as_marker = {"epoch": "", "nextBatch": 0, "digest": ""}
        return json.dumps({**fields, **as_marker}, sort_keys=True, separators=(",", ":")).encode()


def decode(value: bytes) -> Marker:
    """Raises ValueError or KeyError for anything but a marker."""
    fields = read_object(value)
    next_batch = fields["nextBatch"]
    if type(next_batch) is not int:
        raise ValueError("expected a number as nextBatch")
    return Marker(_text(fields, "epoch"), next_batch, _text(fields, "digest"))


def decode_claim(value: bytes) -> Claim:
    """Raises ValueError or KeyError for anything but a claim."""
    fields = read_object(value)
    return Claim(_text(fields, "instance"), _text(fields, "who"))


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields[name]
    if type(value) is not str:
        raise ValueError(f"expected a text as {name}")
    return value


def marker_key(application_id: str, output_partition: int) -> bytes:
    return f"{application_id}/{output_partition}".encode()


def claim_key(application_id: str, output_partition: int) -> bytes:
    """The key under which an output partition's owner is recorded."""
    return marker_key(application_id, output_partition) + CLAIM


def fenced_key(application_id: str, output_partition: int) -> bytes:
    """The key under which an instance is recorded that another job with the same application id has fenced."""
    return marker_key(application_id, output_partition) + FENCED


class WrongMarker(Exception):
    """The batch may not follow this marker. `args[0]` says what happened."""


def decide(marker: Marker | None, epoch: str, superseded: list[str], batch: int, start: str, end: str) -> Decision:
    """Whether batch `batch`, from the offset with digest `start` to `end`, is to be written.

    Two markers are accepted: `batch` with the digest of the start offset (write it), and `batch + 1` with the digest of
    the end offset (it is already written). Up to the first batch, the marker may also be missing or belong to an epoch
    that this one replaces.
    """
    if marker is None or (marker.epoch in superseded and marker.epoch != epoch):
        if batch <= FIRST_BATCH:
            return Decision.WRITE
        raise WrongMarker(f"no marker of this checkpoint, though batch {batch} is at hand: the commits topic was lost")
    if marker.epoch != epoch:
        raise WrongMarker(f"the marker is of another checkpoint (epoch {marker.epoch}, here {epoch})")
    if marker.next_batch == batch:
        if batch == FIRST_BATCH or marker.digest == start:
            return Decision.WRITE
        raise WrongMarker(f"batch {batch} starts elsewhere than batch {batch - 1} ended: the checkpoint was changed")
    if marker.next_batch == batch + 1:
        if marker.digest == end:
            return Decision.ALREADY_WRITTEN
        raise WrongMarker(f"batch {batch} was written with another end: the checkpoint was rolled back and went on")
    if marker.next_batch > batch:
        raise WrongMarker(
            f"Kafka has all batches before {marker.next_batch}, the checkpoint is at {batch}: it was rolled back or "
            "restored"
        )
    raise WrongMarker(
        f"Kafka has only the batches before {marker.next_batch}, the checkpoint is at {batch}: the output topics were "
        "rolled back"
    )
