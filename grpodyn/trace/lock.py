"""One writer a run directory: a file lock, or a heartbeat where the file system knows no locks."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grpodyn.errors import DirectoryInUseError
from grpodyn.trace.schema import LOCK

if sys.platform != "win32":
    import fcntl

HEARTBEAT_SECONDS = 15.0
STALE_SECONDS = 60.0
_UNSUPPORTED = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_HELD = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}
# A reader holds the lock for microseconds while it looks; a writer that starts in that moment must not be refused.
_ATTEMPTS = 20
_PAUSE_SECONDS = 0.02


def boot_id() -> str:
    """Return an id of this boot of this machine, or an empty string where the system has none."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


class WriterLock:
    """The exclusive right to write to a run directory, held until `release` or the death of the process."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor: int | None = descriptor
        self._last_beat = -math.inf
        self.beat()

    @classmethod
    def acquire(cls, run_dir: Path) -> WriterLock:
        """Take the lock.

        Raises:
            DirectoryInUseError: another writer has it; the message says which.
        """
        path = run_dir / LOCK
        # Not inheritable by default: a program started by the training script does not keep the lock alive.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            for attempt in range(_ATTEMPTS):
                held = _try_lock(descriptor, exclusive=True)
                if held is None:
                    held = _beats(_owner(path))
                elif not held:
                    held = _beats_elsewhere(_owner(path))
                if not held:
                    return cls(path, descriptor)
                if attempt + 1 < _ATTEMPTS:
                    time.sleep(_PAUSE_SECONDS)
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)
        raise DirectoryInUseError(
            f"{run_dir} is being written by {_describe(_owner(path))}; wait for it to end, or record into another "
            "directory"
        )

    def beat(self) -> None:
        """Renew the heartbeat if it is due; cheap enough to call at every flush.

        Raises:
            OSError: the disk is full or gone.
        """
        # Monotonic: a wall clock that is set back by an hour must not stop the heart for an hour.
        now = time.monotonic()
        if self._descriptor is None or now - self._last_beat < HEARTBEAT_SECONDS:
            return
        owner = {"host": socket.gethostname(), "boot_id": boot_id(), "pid": os.getpid(), "heartbeat": time.time()}
        # In place, in one write of fixed length: the lock belongs to this very file, so it cannot be replaced.
        os.pwrite(self._descriptor, json.dumps(owner).ljust(256).encode(), 0)
        self._last_beat = now

    def release(self) -> None:
        """Give the lock up."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)
            self.abandon()

    def abandon(self) -> None:
        """Close this process's handle without touching the file: what a forked child does with its parent's lock."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None


def living_writer(run_dir: Path) -> dict[str, Any] | None:
    """Return who writes to the directory now (host, pid, heartbeat), or None. Creates and changes nothing."""
    path = run_dir / LOCK
    owner = _owner(path)
    with _opened(path) as descriptor:
        if descriptor is None:
            return None
        held = _try_lock(descriptor, exclusive=False)
        alive = _beats(owner) if held is None else held or _beats_elsewhere(owner)
    return (owner or {}) if alive else None


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int | None]:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, exclusive: bool) -> bool | None:
    """Return whether another process holds the lock; None where locks are not supported."""
    if sys.platform == "win32":
        return None  # No flock there: the heartbeat decides.
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            return True
        if error.errno in _UNSUPPORTED:
            return None
        raise
    return False


def _owner(path: Path) -> dict[str, Any] | None:
    try:
        owner = json.loads(path.read_bytes() or b"null")
    except (OSError, ValueError):
        return None
    return owner if isinstance(owner, dict) else None


def _beats(owner: dict[str, Any] | None) -> bool:
    """Whether the owner named in the file is alive, judged without a lock."""
    if owner is None:
        return False
    if owner.get("host") == socket.gethostname():
        if owner.get("boot_id") != boot_id():
            return False
        with contextlib.suppress(ProcessLookupError, PermissionError, TypeError, ValueError):
            os.kill(int(owner["pid"]), 0)
            return True
        return False
    return _fresh(owner)


def _beats_elsewhere(owner: dict[str, Any] | None) -> bool:
    """Whether another machine's writer is alive although the lock is free: some file systems lock per machine only."""
    if owner is None or owner.get("host") == socket.gethostname() or owner.get("boot_id") == boot_id():
        return False
    return _fresh(owner)


def _fresh(owner: dict[str, Any]) -> bool:
    heartbeat = owner.get("heartbeat")
    return isinstance(heartbeat, int | float) and abs(time.time() - heartbeat) <= STALE_SECONDS


def _describe(owner: dict[str, Any] | None) -> str:
    return f"process {owner.get('pid')} on {owner.get('host')}" if owner else "another process"
