"""Standard output that may fail: a full disk behind a redirection, a reader that has gone."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_OF_OUTPUT = frozenset({errno.ENOSPC, errno.EPIPE, errno.EIO, errno.EBADF, errno.EDQUOT})


def failed_to_write(error: OSError) -> bool:
    """Return whether an error is one of writing to an open stream, and not of a file that has a name."""
    return error.errno in _OF_OUTPUT and error.filename is None


@contextmanager
def ended_by_the_reader(wanted: bool) -> Iterator[None]:
    """Let this program end without a word when whoever reads its output has gone, as in `grpodyn probes | head`.

    Python turns that into an error of its own, and rich into exit code 1, which here means a finding. Afterwards a
    broken pipe is an error again: a process that calls the command line as a function has pipes of its own.
    """
    if not wanted or not hasattr(signal, "SIGPIPE"):
        yield
        return
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGPIPE, before)


def silence(stream: TextIO) -> None:
    """Let a stream that cannot be written lead nowhere: what it still holds would fail once more at the exit."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        # It has no descriptor (a notebook's, a test's), so nothing is flushed at the exit either.
        return


class LastingOutput:
    """Writes to a stream for as long as that works; then what is written is dropped, and whoever writes goes on.

    Args:
        stream: where text goes.
    """

    def __init__(self, stream: TextIO) -> None:
        self.failed: str | None = None
        """Why nothing is written any more, or None."""
        self._stream = stream

    @property
    def encoding(self) -> str:
        """The stream's."""
        return self._stream.encoding

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the stream's descriptor."""
        return self._stream.fileno()

    def write(self, text: str) -> int:
        """Write text, or drop it."""
        if self.failed is None:
            try:
                return self._stream.write(text)
            except OSError as error:
                self._fail(error)
        return len(text)

    def flush(self) -> None:
        """Flush the stream, or find out that it has failed."""
        if self.failed is None:
            try:
                self._stream.flush()
            except OSError as error:
                self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.failed = error.strerror or str(error)
        silence(self._stream)
