"""The folder that an archive is written to: on this machine, or in a store.

A file of a store is written on this machine and then uploaded. It counts once the note lists it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moneystate.bootstrap.layout import NOTE, RangeNote, damaged_note, decode_note, first_offset
from moneystate.engine.inputs import Inputs
from moneystate.engine.plan import TopicPartition
from moneystate.errors import ArchiveError, SetupError
from moneystate.job.local_path import is_local, local_folder
from moneystate.job.storage.folder import folder_at

FLAG = "--archive"


class ArchiveFolder:
    """Raises ConfigError for an address that is none of a folder, and CheckpointError for a store that does not
    answer."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.local = local_folder(address, FLAG) if is_local(address) else None
        self.folder = folder_at(address, FLAG)

    def name(self, tp: TopicPartition) -> str:
        """Returns the name of a partition's folder for errors."""
        return f"{self.folder.name}/{tp[0]}/{tp[1]}"

    def note(self, tp: TopicPartition) -> RangeNote | None:
        """Returns what an earlier run has recorded; None: there was none. Raises ArchiveError for files without a
        note."""
        place, name = f"{tp[0]}/{tp[1]}", f"{self.name(tp)}/{NOTE}"
        try:
            return decode_note(self.folder.read(f"{place}/{NOTE}"), name)
        except FileNotFoundError:
            pass
        except OSError as e:
            raise damaged_note(name, e) from None
        if self.folder.names(place):
            raise ArchiveError(
                f"{self.name(tp)}: expected an archive's note beside its files.", f"give another {FLAG}."
            )
        return None

    def begin(self, tp: TopicPartition, note: RangeNote) -> None:
        """Records what is to be archived, and removes what an earlier run left behind when it was killed."""
        try:
            self.put_note(tp, note)
        except OSError as e:
            raise SetupError(
                f"{self.name(tp)}: expected a folder that can be written to, but {e}.", f"give another {FLAG}."
            ) from None
        for name in self.folder.names(f"{tp[0]}/{tp[1]}"):
            first = first_offset(name)
            if first is not None and first >= note.done and name not in note.files:
                self.folder.remove(f"{tp[0]}/{tp[1]}/{name}")

    def put_note(self, tp: TopicPartition, note: RangeNote) -> None:
        self.folder.write(f"{tp[0]}/{tp[1]}/{NOTE}", note.encode())

    @contextmanager
    def new_file(self, tp: TopicPartition, name: str) -> Iterator[Path]:
        """Yields where the file is to be written. It is in the archive at the end of the block."""
        if self.local is not None:
            yield self.local / tp[0] / str(tp[1]) / name
            return
        # it imports PySpark, which an archive on this machine does not need
        from moneystate.spark.storage.hadoop import HadoopFolder

        with tempfile.TemporaryDirectory(prefix="moneystate-") as scratch:
            yield Path(scratch) / name
            HadoopFolder(self.address, FLAG).upload(f"{tp[0]}/{tp[1]}/{name}", Path(scratch) / name)


def fetch(archives: dict[Path, str], inputs: Inputs, again: bool) -> None:
    """Copies the inputs' topics of archives in stores to folders of this machine. `again`: also if a copy is there, as
    nothing is known of it yet."""
    for copy, address in archives.items():
        if again:
            shutil.rmtree(copy, ignore_errors=True)
        if not copy.exists():
            _download(address, inputs, copy)


def _download(address: str, inputs: Inputs, copy: Path) -> None:
    from moneystate.spark.storage.hadoop import HadoopFolder

    archive = HadoopFolder(address, "--from")
    unfinished = copy.with_name(copy.name + ".tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    there = archive.names("")
    for topic in [*inputs.named_among(there), *inputs.matching(there)]:
        source = HadoopFolder(f"{archive.name}/{topic}", "--from")
        try:
            source.download(unfinished / topic)
        except FileNotFoundError:
            raise ArchiveError(
                f"{source.name}: expected a folder for each topic, found none.", "give the archive's folder."
            ) from None
    unfinished.rename(copy)
