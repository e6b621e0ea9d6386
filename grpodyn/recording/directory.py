"""Which directory a recorder writes to, and as what: a new run, a later segment, or a new run beside a used one."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from grpodyn.errors import DirectoryInUseError, UnreadableError
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.writer import TraceWriter

logger = logging.getLogger("grpodyn")

_TRIES = 1000


def open_writer(
    run_dir: Path, manifest: Manifest, start_step: int, *, append: bool = False
) -> tuple[TraceWriter, bool]:
    """Return (writer, whether it goes on with a run that was there).

    A trainer that resumes appends a segment to the run in its directory; so does one that starts over if `append` says
    that the run goes on. A fresh start on a directory that is used or
    locked records into `<run_dir>-2`, or the next number that is free.

    Raises:
        DirectoryInUseError: a thousand directories are taken.
        UsageError: the directory cannot be made.
    """
    # `.` has no name to put a number after, and the script may change its working directory.
    run_dir = Path(os.path.abspath(run_dir))
    if start_step > 0 or append:
        try:
            return TraceWriter.resume(run_dir, start_step), True
        except (DirectoryInUseError, UnreadableError) as error:
            logger.warning(
                "the trainer resumes at step %d, but no run goes on from there: %s; recording a new run",
                start_step,
                error,
            )
    for number in range(1, _TRIES):
        candidate = run_dir if number == 1 else run_dir.with_name(f"{run_dir.name}-{number}")
        try:
            writer = TraceWriter.create(candidate, manifest)
        except DirectoryInUseError as error:
            if number == 1:
                logger.warning("%s", error)
            continue
        if candidate != run_dir:
            logger.warning("recording into %s instead of %s", candidate, run_dir)
        return writer, False
    raise DirectoryInUseError(f"{run_dir} and {_TRIES} directories numbered after it are in use; give another name")
