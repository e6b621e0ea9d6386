"""Where the runs of a sweep are trained: processes on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from typing import Protocol

from grpodyn.studies.child import Child, Outcome, outcome, start
from grpodyn.studies.slots import Slot

_POLL_SECONDS = 0.2


class Pool(Protocol):
    """Trains runs."""

    @property
    def free(self) -> int:
        """How many more runs can be taken now."""
        ...

    def submit(self, child: Child) -> None:
        """Take a run."""
        ...

    def ended(self, seconds: float) -> Iterator[tuple[Child, Outcome]]:
        """Wait so many seconds for a run to end, and give those that have."""
        ...

    def interrupt(self) -> None:
        """Ask every run to end after its step with a checkpoint; asked again, at once; a third time kills."""
        ...

    def close(self) -> None:
        """Let go; what still runs is killed."""
        ...


class LocalPool:
    """A process a run, at most one in each slot."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self._idle = list(slots)
        self._running: dict[str, tuple[Child, Slot, subprocess.Popen[bytes]]] = {}
        self._asked: dict[str, int] = {}

    @property
    def free(self) -> int:
        """As many as there are idle slots."""
        return len(self._idle)

    def submit(self, child: Child) -> None:
        """Start a run in an idle slot."""
        slot = self._idle.pop(0)
        self._running[child.name] = (child, slot, start(child, slot.environment(), slot.cores))

    def ended(self, seconds: float) -> Iterator[tuple[Child, Outcome]]:
        """Wait for runs to end."""
        until = time.monotonic() + seconds
        while True:
            over = [name for name, (_, _, process) in self._running.items() if process.poll() is not None]
            for name in over:
                child, slot, process = self._running.pop(name)
                self._idle.append(slot)
                yield child, outcome(child, process.returncode, self._asked.pop(name, 0) > 0)
            if over or not self._running or time.monotonic() >= until:
                return
            time.sleep(_POLL_SECONDS)

    def interrupt(self) -> None:
        """Send each process what Ctrl-C sends; the third time there is no more asking."""
        for name, (_, _, process) in self._running.items():
            self._asked[name] = self._asked.get(name, 0) + 1
            # The process alone, not its group: helpers of a data loader must not die before its last step.
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT if self._asked[name] < 3 else signal.SIGKILL)

    def close(self) -> None:
        """Kill what still runs, with all that it has started."""
        for _, _, process in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._running.clear()
