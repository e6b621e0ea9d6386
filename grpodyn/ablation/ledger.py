"""The ledger of an ablation: one line of JSON for each finished training, appended whole.

A kill at any moment loses the training that was running and nothing else; started again, what the ledger holds is not
trained again. A training is known by a hash of all that decides it, so a changed setting never meets an old result.
"""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from grpodyn.ablation.records import Record
from grpodyn.errors import UnreadableError

if TYPE_CHECKING:
    from grpodyn.ablation.records import Job

logger = logging.getLogger(__name__)

LEDGER = "results.jsonl"


def read(path: Path) -> list[Record]:
    """Return the records of a ledger, none if there is no file; a last line without its end is left out.

    Raises:
        UnreadableError: a whole line is no record.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UnreadableError(f"{path} cannot be read: {error.strerror or error}") from error
    if lines[-1]:
        logger.warning("%s ends in half a line, from a write that was cut off: left out", path)
    records = []
    for number, line in enumerate(lines[:-1], 1):
        if not line:
            continue
        try:
            records.append(Record.from_json(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise UnreadableError(
                f"line {number} of {path} is no result of an ablation ({type(error).__name__}: {error}); take the line "
                "out, and it is trained again"
            ) from error
    return records


class Ledger:
    """The results so far, in memory and on disk. Failures are kept on disk only: a new start tries them again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._by_key = {record.key: record for record in read(path) if record.error is None}

    def __len__(self) -> int:
        return len(self._by_key)

    @property
    def records(self) -> list[Record]:
        """Every result, in the order in which they came."""
        return list(self._by_key.values())

    def add(self, record: Record) -> None:
        """Append a record; on return it is on the disk.

        Raises:
            OSError: the disk is full or gone.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            end = os.lseek(descriptor, 0, os.SEEK_END)
            # After half a line the next one must not be glued to it.
            cut = end > 0 and os.pread(descriptor, 1, end - 1) != b"\n"
            if cut:
                os.ftruncate(descriptor, _last_line_end(descriptor, end))
            line = record.to_line()
            if os.write(descriptor, line) < len(line):
                raise OSError(errno.ENOSPC, f"only a part of a result fitted on the disk: {self.path}")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if record.error is None:
            self._by_key[record.key] = record

    def result(self, job: Job) -> Record | None:
        """Return what came of this training, or None; one training may be the job of two arms."""
        found = self._by_key.get(job.key)
        return None if found is None else replace(found, task=job.task, arm=job.arm, power=job.power)

    def merge(self, records: Iterable[Record]) -> int:
        """Append what is not here yet, and return how many records that were."""
        new = [record for record in records if record.error is None and record.key not in self._by_key]
        for record in new:
            self.add(record)
        return len(new)


def _last_line_end(descriptor: int, size: int) -> int:
    """Return the offset after the last line feed."""
    block = 1 << 16
    position = size
    while position > 0:
        start = max(0, position - block)
        found = os.pread(descriptor, position - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        position = start
    return 0
