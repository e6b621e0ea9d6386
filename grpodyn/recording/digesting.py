"""The digest of the files that hold W_0, computed beside the training: large files take seconds to read."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from grpodyn.recording.boundary import Boundary
from grpodyn.recording.reference import Reference, digests
from grpodyn.trace.writer import TraceWriter

_PATIENCE_SECONDS = 10.0


class Digesting:
    """Reads the files on a thread of its own, and writes their digests into the manifest.

    Args:
        reference: W_0.
        run_dir: the run, whose `base/` may hold some of it.
        boundary: runs what may fail.
        writer: has the manifest.
    """

    def __init__(self, reference: Reference, run_dir: Path, boundary: Boundary, writer: TraceWriter) -> None:
        self._reference = reference
        self._run_dir = run_dir
        self._writer = writer
        self.cpu_seconds = 0.0
        """CPU seconds of the thread, once it has ended."""
        self._thread = threading.Thread(target=boundary.run, args=("sha256", self._digest), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Wait for the digests, for a limited time."""
        self._thread.join(_PATIENCE_SECONDS)

    def _digest(self) -> None:
        found = digests(self._reference.facts, self._run_dir)
        self.cpu_seconds = time.thread_time()
        self._writer.update_manifest(reference={"sha256": found})
