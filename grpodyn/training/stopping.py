"""Ctrl-C: the first one finishes the step and saves, the second one stops at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

from transformers import TrainerCallback

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_FIRST = b"\ngrpodyn: finishing this step and saving a checkpoint; once more to stop at once\n"


class StopOnSignal(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Ends training after the current step, with a checkpoint, once SIGINT or SIGTERM has come.

    A context manager: the handlers are installed inside it only.
    """

    def __init__(self) -> None:
        self.asked = False
        self.then: Callable[[], None] = _nothing
        """What the first signal does besides, inside its handler."""
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _restore(self) -> None:
        while self._previous:
            number, handler = self._previous.popitem()
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            self._restore()
            raise KeyboardInterrupt
        self.asked = True
        # Not print: the signal may have come in the middle of a print.
        os.write(2, _FIRST)
        self.then()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Ask the trainer to save and to stop."""
        if self.asked:
            control.should_save = args.save_strategy != "no"
            control.should_training_stop = True


def _nothing() -> None:
    """Leave it at the flag."""
