"""Single keys from the terminal, which is left as it was found."""

from __future__ import annotations

import contextlib
import select
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@contextlib.contextmanager
def keys() -> Iterator[Callable[[float], str]]:
    """Yield a function that waits so many seconds for a key, and returns it, or an empty string.

    Where standard input is no terminal, it only waits. Keys are not echoed. However this is left, by Ctrl-C and by a
    request to end too, the terminal behaves as before.
    """
    with _ends_orderly():
        if sys.platform == "win32" or not sys.stdin.isatty():
            yield _only_wait
            return
        import termios
        import tty

        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
        try:
            tty.setcbreak(descriptor)
            yield _key
        finally:
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _key(seconds: float) -> str:
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return sys.stdin.read(1) if ready else ""


def _only_wait(seconds: float) -> str:
    time.sleep(seconds)
    return ""


@contextlib.contextmanager
def _ends_orderly() -> Iterator[None]:
    """Let a request to end (a closed window, `kill`) unwind the program, as Ctrl-C does."""
    wanted = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, _end) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
