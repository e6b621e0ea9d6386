"""Processes that train for another one, and do not outlive it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

_CHECK_SECONDS = 2.0


def watch_parent(parent: int, then: Callable[[], None]) -> None:
    """Call `then` once, from a thread, when the process `parent` is no longer this one's parent."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_CHECK_SECONDS)
        then()

    threading.Thread(target=watch, daemon=True, name="grpodyn-parent").start()
